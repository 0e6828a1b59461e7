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

// Settings of a measurement. They are part of each result.
type Settings struct {
	Transport string   `json:"transport"`      // one of transports
	URL       string   `json:"url"`            // of the fabric; empty: derived from Transport, Interface and MTU
	Legs      []string `json:"legs,omitempty"` // URLs of further legs
	worker.Sockets
	worker.Traffic
	Loss      float64  `json:"loss"` // share of packets that each subscriber loses
	Seed      int      `json:"seed"` // of the simulated loss
	Runs      int      `json:"runs"`
	Baselines []string `json:"baselines"` // names of contenders
	worker.Shape
	// Batch also measures with so many messages in a call, a power of two.
	Batch int `json:"batch,omitempty"`
	// Target is the share of each baseline's throughput that ours should reach, or of "one" (Many),
	// which the result evaluates; 0: none.
	Target float64 `json:"target,omitempty"`
	// Wildcard also measures with subscribers of the pattern ">".
	Wildcard bool `json:"wildcard,omitempty"`
	// Sealed also measures with keys.
	Sealed bool `json:"sealed,omitempty"`
	// Signed also measures with a publisher that signs, and subscribers that trust its key.
	Signed bool `json:"signed,omitempty"`
	// Alone also measures with one subscriber.
	Alone bool `json:"alone,omitempty"`
	// Profile is a directory for CPU profiles of all workers; empty: none.
	Profile string `json:"profile,omitempty"`
	// Metrics is the address for serving metrics, in a contest with "ours", which then serves none;
	// empty: none. They are scraped every second.
	Metrics string `json:"metrics,omitempty"`
	// Top also measures while the processes are read every second as by fanfare top, and their metrics
	// are scraped if Metrics is set. "ours" then has no inspection sockets.
	Top bool `json:"top,omitempty"`
}

var transports = []string{"udp", "shm", "mem", "roce", "sim"}

// Defaults returns the default settings for a transport.
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

// Many reports whether there is more than one topic, publisher or the like, so that one of each is measured for
// comparison.
func (s *Settings) Many() bool {
	return s.Topics > 1 || s.Goroutines > 1 || s.Buses > 1 || s.Extra > 0
}

// Limits of settings.
const (
	minMTU        = 512 // the smallest packet that Fanfare supports
	rdmaMTU       = 4096
	maxRate       = 1e7 // above the rate of any contender: a run would take longer than requested
	maxBuffer     = 1 << 30
	maxTopics     = 100_000
	maxGoroutines = 64
	maxBuses      = 64 // default of pubsub.Config.MaxPublishers
	maxBatch      = 1024
	maxRequests   = 10_000_000
)

// socketMTU is the datagram size of baselines with sockets: that of Fanfare's packets, or that of
// Ethernet if Fanfare's are in memory, which are larger.
func (s *Settings) socketMTU() int {
	if s.Transport == "mem" || s.Transport == "shm" {
		return Defaults("udp").MTU
	}
	return s.MTU
}

// InProcess reports whether the transport works within one process.
func (s *Settings) InProcess() bool { return s.Transport == "mem" || s.Transport == "sim" }

// Check validates the settings for a scenario; errors suggest a remedy.
func (s *Settings) Check(scenario string, known worker.Contenders) error {
	if err := cmp.Or(s.checkRanges(), s.checkTogether(), s.checkFabric()); err != nil {
		return err
	}
	if scenario == "request" && s.InProcess() {
		return fmt.Errorf("%s:// works within one process, but responders are separate processes: use udp, shm or roce", s.Transport)
	}
	for _, b := range s.Baselines {
		if err := s.CheckBaseline(scenario, b, known); err != nil {
			return err
		}
	}
	return nil
}

// within checks the limits of a flag's value.
func within[T cmp.Ordered](flag string, val, lo, hi T) error {
	if val >= lo && val <= hi { // false for NaN
		return nil
	}
	return fmt.Errorf("%s %v must be from %v to %v", flag, val, lo, hi)
}

// checkRanges validates single settings.
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

// checkTogether validates combinations of settings.
func (s *Settings) checkTogether() error {
	switch {
	case s.Target > 0 && len(s.Baselines) == 0 && !s.Many():
		return errors.New("-target is a share of a baseline's throughput: select one with -baseline")
	case s.Topics*s.Goroutines*s.Buses > worker.MaxSeries:
		return fmt.Errorf("-topics %d by -goroutines %d by -pubs %d exceed the %d series that subscribers can check", s.Topics, s.Goroutines, s.Buses, worker.MaxSeries)
	case s.Split && s.Subs < 2:
		return errors.New("-split divides the topics among subscribers: add -subs, such as 4")
	case s.Split && s.Topics < s.Subs:
		return fmt.Errorf("-split needs a topic for each subscriber: add -topics, at least %d", s.Subs)
	case s.Order != worker.OrderRound && s.Topics == 1:
		return errors.New("-order has no effect with one topic: add -topics")
	case s.Batch > 0 && s.Many():
		return errors.New("-batch needs one publisher on one topic: leave out -topics and similar flags")
	}
	return nil
}

func (s *Settings) checkFabric() error {
	u, err := url.Parse(s.URL)
	switch {
	case s.URL != "" && (err != nil || u.Scheme != s.Transport):
		return fmt.Errorf("-t %q must be a URL of transport %s: %s://…", s.URL, s.Transport, s.Transport)
	case s.Sealed && u.Query().Has("keys"):
		return fmt.Errorf("-t %q already has keys: leave out -keys", s.URL)
	case s.Signed && (u.Query().Has("sign") || u.Query().Has("trust")):
		return fmt.Errorf("-t %q already has sign or trust: leave out -sign", s.URL)
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

// DefaultBaselines are the most informative baselines for a scenario that suit the settings.
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

// CheckBaseline returns an error if a baseline does not suit the settings in a scenario.
func (s *Settings) CheckBaseline(scenario, name string, known worker.Contenders) error {
	made, ok := known[name]
	if !ok || name == contenders.Fanfare {
		names := slices.DeleteFunc(known.Names(), func(n string) bool { return n == contenders.Fanfare })
		return fmt.Errorf("baseline %q is not one of %s", name, strings.Join(names, ", "))
	}
	if scenario == "request" {
		if _, ok := made().(worker.Requester); !ok {
			return fmt.Errorf("baseline %s does not support requests", name)
		}
		return nil
	}
	if flag := s.unsupported(name, made()); flag != "" {
		return fmt.Errorf("baseline %s does not support %s: leave it out of -baseline", name, flag)
	}
	limit, why, against := 16<<20, "", "" // bytes in a message
	switch name {
	case contenders.Raw:
		limit, why = contenders.MaxRaw(s.socketMTU(), s.Topics > 1), "sends complete messages in a datagram"
		switch {
		case s.Transport == "sim":
			against = "is only for comparison with udp, shm, roce and mem"
		case s.Topics > 1 && scenario != "throughput":
			against = "supports many topics in throughput only"
		case scenario == "latency":
			limit, why = contenders.MaxRawPaced, "sends one datagram for each message in "+scenario
		}
	case contenders.Naive:
		if limit, why = contenders.MaxDatagram, "sends one datagram for each message"; s.InProcess() {
			against = "is only for transports between processes: udp, shm, roce"
		}
	case contenders.Ring:
		limit, why = contenders.MaxRing, "stores complete messages in a block"
		if s.Transport != "shm" || s.Topics > 1 || s.Wait == worker.WaitPark {
			against = "is only for -transport shm and one topic"
		}
	case contenders.UDP:
		if s.InProcess() || s.Transport == "udp" {
			against = "is Fanfare over plain UDP, only for other transports between processes: shm, roce"
		}
	case contenders.Channel:
		if s.Size != contenders.ChannelSize {
			against = fmt.Sprintf("supports only messages of %d bytes, not %d", contenders.ChannelSize, s.Size)
		}
		if !s.InProcess() {
			against = "is only for transports within a process: mem, sim"
		}
	}
	switch {
	case against != "":
		return fmt.Errorf("baseline %s %s", name, against)
	case s.Size > limit:
		return fmt.Errorf("baseline %s %s, which holds at most %d bytes, not %d", name, why, limit, s.Size)
	}
	return nil
}

// unsupported returns a flag of these settings' shape that a baseline does not support; empty: none.
func (s *Settings) unsupported(name string, baseline worker.Contender) string {
	_, topical := baseline.(worker.Topical)
	switch {
	case name == contenders.UDP: // UDP is Fanfare
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

// shapeText describes the shape, unless it is the simplest one.
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

// command applies a command line, without "fanfare bench", and returns its scenario. It supports
// the flags that aims use.
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
