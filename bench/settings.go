package bench

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// Settings are what may be chosen of a measurement. They are part of each result.
type Settings struct {
	Transport string   `json:"transport"`      // one of transports
	URL       string   `json:"url"`            // of the fabric; empty: made from Transport, Interface and MTU
	Legs      []string `json:"legs,omitempty"` // URLs of further legs
	worker.Sockets
	worker.Traffic
	Loss      float64  `json:"loss"` // share of packets that each subscriber loses
	Seed      int      `json:"seed"` // of the loss
	Runs      int      `json:"runs"`
	Baselines []string `json:"baselines"` // names of contenders
	worker.Shape
	// Batch measures once more with so many messages a call, a power of two.
	Batch int `json:"batch,omitempty"`
	// Target is the share of each baseline's throughput that ours is to reach, or of "one"
	// (Many): the result says whether it does; 0: it says nothing.
	Target float64 `json:"target,omitempty"`
	// Wildcard measures once more with subscribers that take all topics by the pattern ">".
	Wildcard bool `json:"wildcard,omitempty"`
	// Sealed measures once more with keys.
	Sealed bool `json:"sealed,omitempty"`
	// Signed measures once more with a publisher that signs, and subscribers that trust its key.
	Signed bool `json:"signed,omitempty"`
	// Alone measures once more with one subscriber.
	Alone bool `json:"alone,omitempty"`
	// Profile is a directory for CPU profiles of all workers; empty: none are made.
	Profile string `json:"profile,omitempty"`
	// Metrics is where to serve metrics, in a contest with "ours", which then
	// does not; empty: nowhere. They are read each second.
	Metrics string `json:"metrics,omitempty"`
	// Top measures once more while fanfare top would read the processes each second, and a scrape their metrics
	// if Metrics is set. "ours" has no sockets for that.
	Top bool `json:"top,omitempty"`
}

var transports = []string{"udp", "shm", "mem", "roce", "sim"}

// Defaults are good settings for a transport.
func Defaults(transport string) Settings {
	mtu := 1472
	switch transport {
	case "mem":
		mtu = mem.DefaultPacketSize
	case "shm":
		mtu = shm.DefaultPacketSize
	}
	return Settings{
		Transport: transport, Seed: 1, Runs: 5,
		Sockets: worker.Sockets{Interface: sys.LoopbackName(), MTU: mtu, RecvBuf: 8 << 20, SendBuf: 2 << 20},
		Traffic: worker.Traffic{
			Size: 64, Subs: 1, Seconds: 2, Receive: worker.ReceiveHandle,
			Wait: worker.WaitAdaptive, PublisherWait: worker.WaitSpin,
			Rate: 50000, Requests: 10_000,
		},
		Shape: worker.Shape{Topics: 1, Order: worker.OrderRound, Goroutines: 1, Buses: 1},
	}
}

// Many reports whether there is more than one of anything, so that one of each is measured beside it.
func (s *Settings) Many() bool {
	return s.Topics > 1 || s.Goroutines > 1 || s.Buses > 1 || s.Extra > 0
}

// Limits of settings.
const (
	minMTU        = 512 // the smallest packet that Fanfare takes
	rdmaMTU       = 4096
	maxRate       = 1e7 // no contender comes near: a run would last longer than it was asked to
	maxBuffer     = 1 << 30
	maxTopics     = 100_000
	maxGoroutines = 64
	maxBuses      = 64 // pubsub.Config.MaxPublishers, by default
	maxBatch      = 1024
	maxRequests   = 10_000_000
)

// socketMTU is the size of the datagrams of baselines that have sockets: that of our packets, or beside packets that
// are in memory, which are larger, that of Ethernet's.
func (s *Settings) socketMTU() int {
	if s.Transport == "mem" || s.Transport == "shm" {
		return Defaults("udp").MTU
	}
	return s.MTU
}

// InProcess reports whether the transport does not leave the process.
func (s *Settings) InProcess() bool { return s.Transport == "mem" || s.Transport == "sim" }

// Check says what is wrong with the settings for a scenario, and what to do about it.
func (s *Settings) Check(scenario string, known worker.Contenders) error {
	if err := cmp.Or(s.checkRanges(), s.checkTogether(), s.checkFabric()); err != nil {
		return err
	}
	if scenario == "request" && s.InProcess() {
		return fmt.Errorf("%s:// does not leave the process, and responders are processes of their own: use udp, shm or roce", s.Transport)
	}
	for _, b := range s.Baselines {
		if err := s.CheckBaseline(scenario, b, known); err != nil {
			return err
		}
	}
	return nil
}

// within says that a flag's value is not within its limits; nil: it is.
func within[T cmp.Ordered](flag string, val, least, most T) error {
	if val >= least && val <= most { // which NaN is not
		return nil
	}
	return fmt.Errorf("%s %v must be from %v to %v", flag, val, least, most)
}

// checkRanges says which single setting cannot be.
func (s *Settings) checkRanges() error {
	mtu := contenders.MaxDatagram
	if s.Transport == "roce" || s.Transport == "sim" {
		mtu = rdmaMTU
	}
	switch {
	case !slices.Contains(transports, s.Transport):
		return fmt.Errorf("-transport %q is not one of %s", s.Transport, strings.Join(transports, ", "))
	case !(s.Loss >= 0 && s.Loss <= 0.9):
		return fmt.Errorf("-loss %g must be from 0 to 0.9: 0.01 is one packet in a hundred", s.Loss)
	case !slices.Contains(worker.Orders(), s.Order):
		return fmt.Errorf("-order %q is not one of round, zipf, bursts", s.Order)
	case s.Batch < 0 || s.Batch > maxBatch || s.Batch&(s.Batch-1) != 0:
		return fmt.Errorf("-batch %d must be a power of two up to %d", s.Batch, maxBatch)
	}
	return cmp.Or(
		within("-size", s.Size, worker.MinSize, 16<<20), within("-mtu", s.MTU, minMTU, mtu), within("-subs", s.Subs, 1, 256),
		within("-runs", s.Runs, 1, 1000), within("-seconds", s.Seconds, 0.05, 3600), within("-rate", s.Rate, 1, maxRate),
		within("rcvbuf", s.RecvBuf, 1<<12, maxBuffer), within("sndbuf", s.SendBuf, 1<<12, maxBuffer), within("-target", s.Target, 0, 1000),
		within("-topics", s.Topics, 1, maxTopics), within("-requests", s.Requests, 1, maxRequests), within("-goroutines", s.Goroutines, 1, maxGoroutines), within("-pubs", s.Buses, 1, maxBuses),
		within("-extra-subscriptions", s.Extra, 0, maxTopics))
}

// checkTogether says which settings do not go together.
func (s *Settings) checkTogether() error {
	switch {
	case s.Target > 0 && len(s.Baselines) == 0 && !s.Many():
		return errors.New("-target is a share of a baseline's throughput: name one with -baseline")
	case s.Topics*s.Goroutines*s.Buses > worker.MaxSeries:
		return fmt.Errorf("-topics %d by -goroutines %d by -pubs %d are more than %d, which subscribers can check", s.Topics, s.Goroutines, s.Buses, worker.MaxSeries)
	case s.Split && s.Subs < 2:
		return errors.New("-split shares the topics among subscribers: give -subs too, such as 4")
	case s.Split && s.Topics < s.Subs:
		return fmt.Errorf("-split needs a topic for each subscriber: give -topics too, at least %d", s.Subs)
	case s.Order != worker.OrderRound && s.Topics == 1:
		return errors.New("-order would change nothing with one topic: give -topics too")
	case s.Batch > 0 && s.Many():
		return errors.New("-batch is of one publisher on one topic: leave -topics and the like out")
	}
	return nil
}

func (s *Settings) checkFabric() error {
	u, err := url.Parse(s.URL)
	switch {
	case s.URL != "" && (err != nil || u.Scheme != s.Transport):
		return fmt.Errorf("-t %q must be a URL of transport %s: %s://…", s.URL, s.Transport, s.Transport)
	case s.Sealed && u.Query().Has("keys"):
		return fmt.Errorf("-t %q has keys already: leave -keys out", s.URL)
	case s.Signed && (u.Query().Has("sign") || u.Query().Has("trust")):
		return fmt.Errorf("-t %q has sign or trust already: leave -sign out", s.URL)
	case s.InProcess():
		return nil
	}
	if _, err := sys.InterfaceByName(s.Interface); errors.Is(err, sys.ErrNoInterface) {
		return fmt.Errorf("%q (-iface, or of -t) is not an interface of this host", s.Interface)
	} else if err != nil {
		return err
	}
	return nil
}

// DefaultBaselines are the baselines that say most about a scenario, as far as they suit the settings.
func (s *Settings) DefaultBaselines(scenario string) []string {
	best := []string{contenders.Raw}
	switch {
	case scenario == "loss" || scenario == "idle" || scenario == "request":
		best = nil
	case s.InProcess():
		best = []string{contenders.Channel}
	case s.Transport == "shm":
		best = []string{contenders.Ring, contenders.UDP}
	case scenario == "throughput":
		best = []string{contenders.Raw, contenders.Naive}
	}
	suits := []string{}
	for _, name := range best {
		if s.CheckBaseline(scenario, name, contenders.All()) == nil {
			suits = append(suits, name)
		}
	}
	return suits
}

// CheckBaseline says why a baseline does not suit the settings in a scenario.
func (s *Settings) CheckBaseline(scenario, name string, known worker.Contenders) error {
	made, ok := known[name]
	if !ok || name == contenders.Fanfare {
		names := slices.DeleteFunc(known.Names(), func(n string) bool { return n == contenders.Fanfare })
		return fmt.Errorf("baseline %q is not one of %s", name, strings.Join(names, ", "))
	}
	if scenario == "request" {
		if _, ok := made().(worker.Requester); !ok {
			return fmt.Errorf("baseline %s has no requests", name)
		}
		return nil
	}
	if flag := s.unsupported(name, made()); flag != "" {
		return fmt.Errorf("baseline %s does not support %s: leave it out of -baseline", name, flag)
	}
	most, why, against := 16<<20, "", "" // bytes in a message
	switch name {
	case contenders.Raw:
		most, why = contenders.MaxRaw(s.socketMTU(), s.Topics > 1), "has whole messages in a datagram"
		switch {
		case s.Transport == "sim":
			against = "says what the machine can do over UDP, beside udp, shm, roce and mem"
		case s.Topics > 1 && scenario != "throughput":
			against = "goes through many topics in throughput only"
		case scenario == "latency":
			most, why = contenders.MaxRawPaced, "sends a datagram a message in "+scenario
		}
	case contenders.Naive:
		if most, why = contenders.MaxDatagram, "sends a datagram a message"; s.InProcess() {
			against = "is for transports between processes: udp, shm, roce"
		}
	case contenders.Ring:
		most, why = contenders.MaxRing, "has whole messages in a block"
		if s.Transport != "shm" || s.Topics > 1 || s.Wait == worker.WaitPark {
			against = "is for -transport shm and one topic, and spins"
		}
	case contenders.UDP:
		if s.InProcess() || s.Transport == "udp" {
			against = "is Fanfare over plain UDP, for other transports between processes: shm, roce"
		}
	case contenders.Channel:
		if s.Size != contenders.ChannelSize {
			against = fmt.Sprintf("has messages of %d bytes, not of %d", contenders.ChannelSize, s.Size)
		}
		if !s.InProcess() {
			against = "is for transports within a process: mem, sim"
		}
	}
	switch {
	case against != "":
		return fmt.Errorf("baseline %s %s", name, against)
	case s.Size > most:
		return fmt.Errorf("baseline %s %s, which holds %d bytes at most, not %d", name, why, most, s.Size)
	}
	return nil
}

// unsupported is a flag of these settings' shape that a baseline cannot follow; empty if there is none.
func (s *Settings) unsupported(name string, baseline worker.Contender) string {
	_, topical := baseline.(worker.Topical)
	switch {
	case name == contenders.UDP: // which is Fanfare
	case s.Topics > 1 && !topical:
		return "-topics"
	case s.Goroutines > 1:
		return "-goroutines"
	case s.Buses > 1:
		return "-pubs"
	case s.Extra > 0:
		return "-extra-subscriptions"
	case s.Split:
		return "-split"
	}
	return ""
}

// shapeText describes the shape, where it is not the simplest one.
func (s *Settings) shapeText() string {
	var parts []string
	add := func(n, from int, format string) {
		if n >= from {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(s.Topics, 2, "%d topics, "+s.Order.Text())
	add(s.Goroutines, 2, "%d publishing goroutines")
	add(s.Buses, 2, "%d publishers")
	add(s.Extra, 1, "%d subscriptions to other topics")
	return strings.Join(parts, ", ")
}

// command takes over what a command line says, without "fanfare bench", and returns its scenario. It knows the flags
// that aims need.
func (s *Settings) command(line string) (scenario string, err error) {
	baselines := ""
	flags := map[string]any{
		"-transport": &s.Transport, "-mtu": &s.MTU, "-size": &s.Size, "-subs": &s.Subs, "-loss": &s.Loss, "-receive": &s.Receive,
		"-wait": &s.Wait, "-batch": &s.Batch, "-metrics": &s.Metrics, "-runs": &s.Runs, "-seconds": &s.Seconds, "-topics": &s.Topics,
		"-order": &s.Order, "-goroutines": &s.Goroutines, "-pubs": &s.Buses, "-extra-subscriptions": &s.Extra, "-baseline": &baselines,
	}
	switches := map[string]*bool{
		"-wildcard": &s.Wildcard, "-top": &s.Top, "-alone": &s.Alone, "-keys": &s.Sealed, "-sign": &s.Signed, "-split": &s.Split,
	}
	words := strings.Fields(line)
	for i := 1; i < len(words) && err == nil; i++ {
		if on := switches[words[i]]; on != nil {
			*on = true
			continue
		}
		i++
		if _, err = fmt.Sscan(words[i], flags[words[i-1]]); words[i-1] == "-transport" {
			s.MTU = Defaults(s.Transport).MTU
		}
	}
	s.Baselines = strings.FieldsFunc(baselines, func(r rune) bool { return r == ',' })
	return words[0], err
}
