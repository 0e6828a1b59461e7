package bench

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// Settings are what may be chosen of a measurement. They are part of each
// result.
type Settings struct {
	Transport string   `json:"transport"`      // one of Transports
	URL       string   `json:"url"`            // of the fabric; empty: made from Transport, Interface and MTU
	Legs      []string `json:"legs,omitempty"` // URLs of further legs
	worker.Sockets
	MTUs []int `json:"mtus,omitempty"` // of the scenario sizes; empty: DefaultMTUs
	worker.Traffic
	Together bool    `json:"subs_in_one_process"` // subscribers are goroutines of one process
	Loss     float64 `json:"loss"`                // share of packets that each subscriber loses
	Seed     int     `json:"seed"`                // of the loss
	Runs     int     `json:"runs"`
	// Baselines are names of contenders.
	Baselines []string `json:"baselines"`
	Shape
	// Batch measures once more with so many messages a call, a power of two.
	Batch int `json:"batch,omitempty"`
	// Target is the share of each baseline's throughput that ours is to reach, or of "one"
	// (Shape.Many): the result says whether it does; 0: it says nothing.
	Target float64 `json:"target,omitempty"`
	// Wildcard measures once more with subscribers that take all topics by the pattern ">".
	Wildcard bool `json:"wildcard,omitempty"`
	// Sealed measures once more with keys.
	Sealed bool `json:"sealed,omitempty"`
	// Signed measures once more with a publisher that signs, and subscribers that trust its key.
	Signed bool `json:"signed,omitempty"`
	Others
	// Profile is a directory for CPU profiles of all workers; empty: none are
	// made.
	Profile string `json:"profile,omitempty"`
	// Metrics is where to serve metrics, in a contest with "ours", which then
	// does not; empty: nowhere. They are read each second.
	Metrics string `json:"metrics,omitempty"`
	// Top measures once more with processes that are looked at each second, as fanfare top
	// does, and whose metrics are read if Metrics is set. "ours" has no sockets for that.
	Top bool `json:"top,omitempty"`
}

// Others says what the subscribers beside those that are measured do.
type Others struct {
	// Stopped goes through the strategies of flow control, each with and without so many of
	// the subscribers stopped (SIGSTOP) while messages are published.
	Stopped int `json:"stopped,omitempty"`
	// Alone measures once more with one subscriber.
	Alone bool `json:"alone,omitempty"`
}

// MTU64K is the largest UDP payload over IPv4.
const MTU64K = contenders.MaxDatagram

// Transports are the names of fabrics.
func Transports() []string { return []string{"udp", "shm", "mem", "roce", "sim"} }

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
			Size: 64, Subs: 1, Seconds: 2, Receive: worker.ReceiveHandle, Wait: worker.WaitAdaptive, PublisherWait: worker.WaitSpin,
			Rate: 50000, Burst: 1000, Every: 10 * time.Millisecond,
		},
		Shape: Shape{Topics: 1, Order: worker.OrderRound, Goroutines: 1, Buses: 1},
	}
}

// DefaultMTUs are the datagram sizes that the scenario sizes goes through: Ethernet's, a
// jumbo frame's and the largest of UDP, or three of RDMA's.
func (s *Settings) DefaultMTUs() []int {
	if s.overRDMA() {
		return []int{1024, 2048, rdmaMTU}
	}
	return []int{1472, 8192, MTU64K}
}

// minMTU is the smallest packet that Fanfare takes; maxRate what no contender comes
// near, message by message: a run would last longer than it was asked to.
const (
	minMTU  = 512
	rdmaMTU = 4096 // the largest
	maxRate = 1e7
)

// overRDMA reports whether datagrams are RDMA's.
func (s *Settings) overRDMA() bool { return s.Transport == "roce" || s.Transport == "sim" }

// socketMTU is the size of the datagrams of baselines that have sockets: that of our packets, or beside packets that
// are in memory, which are larger, that of Ethernet's.
func (s *Settings) socketMTU() int {
	if s.Transport == "mem" || s.Transport == "shm" {
		return Defaults("udp").MTU
	}
	return s.MTU
}

// maxMTU is the largest datagram of the transport.
func (s *Settings) maxMTU() int {
	if s.overRDMA() {
		return rdmaMTU
	}
	return MTU64K
}

// InProcess reports whether the transport does not leave the process.
func (s *Settings) InProcess() bool { return s.Transport == "mem" || s.Transport == "sim" }

// Check says what is wrong with the settings for a scenario, and what to do about it.
func (s *Settings) Check(scenario string, known worker.Contenders) error {
	switch {
	case !slices.Contains(Transports(), s.Transport):
		return fmt.Errorf("-transport %q is not one of %s", s.Transport, strings.Join(Transports(), ", "))
	case s.Size < worker.MinSize || s.Size > 16<<20:
		return fmt.Errorf("-size %d must be from %d to %d bytes", s.Size, worker.MinSize, 16<<20)
	case s.MTU < minMTU || s.MTU > s.maxMTU():
		return fmt.Errorf("-mtu %d must be from %d to %d bytes with -transport %s", s.MTU, minMTU, s.maxMTU(), s.Transport)
	case s.Subs < 1 || s.Subs > 256:
		return fmt.Errorf("-subs %d must be from 1 to 256", s.Subs)
	case !(s.Loss >= 0 && s.Loss <= 0.9):
		return fmt.Errorf("-loss %g must be from 0 to 0.9: 0.01 is one packet in a hundred", s.Loss)
	case s.Runs < 1 || s.Runs > 1000:
		return fmt.Errorf("-runs %d must be from 1 to 1000", s.Runs)
	case !(s.Seconds >= 0.05 && s.Seconds <= 3600):
		return fmt.Errorf("-seconds %g must be from 0.05 to 3600", s.Seconds)
	case !(s.Rate >= 1 && s.Rate <= maxRate):
		return fmt.Errorf("-rate %g must be from 1 to %g messages a second", s.Rate, maxRate)
	case s.Burst < 1 || s.Burst > 1e6:
		return fmt.Errorf("-burst %d must be from 1 to 1000000 messages", s.Burst)
	case s.Every < 100*time.Microsecond || s.Every > time.Minute:
		return fmt.Errorf("-every %v must be from 100µs to 1m", s.Every)
	case float64(s.Burst)/s.Every.Seconds() > maxRate:
		return fmt.Errorf("-burst %d -every %v are more than %g messages a second", s.Burst, s.Every, maxRate)
	case !(s.Target >= 0 && s.Target <= 1000):
		return fmt.Errorf("-target %g must be a share of the baselines' throughput, such as 0.6", s.Target)
	case s.Target > 0 && len(s.Baselines) == 0 && !s.Many():
		return errors.New("-target is a share of a baseline's throughput: name one with -baseline")
	case s.RecvBuf < 1<<12 || s.RecvBuf > 1<<30 || s.SendBuf < 1<<12 || s.SendBuf > 1<<30:
		return fmt.Errorf("-rcvbuf and -sndbuf must be from 4096 to %d bytes", 1<<30)
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err == nil && s.Sealed && u.Query().Has("keys") {
			return fmt.Errorf("-t %q has keys already: leave -keys out", s.URL)
		}
		if err == nil && s.Signed && (u.Query().Has("sign") || u.Query().Has("trust")) {
			return fmt.Errorf("-t %q has sign or trust already: leave -sign out", s.URL)
		}
		if err != nil || u.Scheme != s.Transport {
			return fmt.Errorf("-t %q must be a URL of transport %s: %s://…", s.URL, s.Transport, s.Transport)
		}
	}
	if !s.InProcess() {
		switch _, err := sys.InterfaceByName(s.Interface); {
		case errors.Is(err, sys.ErrNoInterface):
			return fmt.Errorf("%q (-iface, or of -t) is not an interface of this host", s.Interface)
		case err != nil:
			return err
		}
	}
	if err := s.checkShape(); err != nil {
		return err
	}
	if err := s.checkStopped(); err != nil {
		return err
	}
	for _, b := range s.Baselines {
		if err := s.CheckBaseline(scenario, b, known); err != nil {
			return err
		}
	}
	return nil
}

// DefaultBaselines are the baselines that say most about a scenario, as far as they suit
// the settings. The scenario all drops by itself what does not suit a step.
func (s *Settings) DefaultBaselines(scenario string) (names []string) {
	best := []string{contenders.Raw}
	switch {
	case scenario == "loss" || scenario == "idle":
		best = nil
	case s.InProcess():
		best = []string{contenders.Channel}
	case s.Transport == "shm":
		best = []string{contenders.Ring, contenders.UDP}
	case scenario == "throughput" || scenario == "all":
		best = []string{contenders.Raw, contenders.Naive}
	}
	names = []string{}
	for _, name := range best {
		if s.CheckBaseline(scenario, name, contenders.All()) == nil {
			names = append(names, name)
		}
	}
	return names
}

// CheckBaseline says why a baseline does not suit the settings in a scenario.
func (s *Settings) CheckBaseline(scenario, name string, known worker.Contenders) error {
	made, ok := known[name]
	paced := scenario == "latency" || scenario == "burst"
	switch {
	case !ok || name == contenders.Fanfare:
		names := slices.DeleteFunc(known.Names(), func(n string) bool { return n == contenders.Fanfare })
		return fmt.Errorf("baseline %q is not one of %s", name, strings.Join(names, ", "))
	case s.unsupported(name, made()) != "":
		return fmt.Errorf("baseline %s does not support %s: leave it out of -baseline", name, s.unsupported(name, made()))
	case name == contenders.Channel && !s.InProcess():
		return fmt.Errorf("baseline %s is for transports within a process: mem, sim", name)
	case name == contenders.Naive && s.InProcess():
		return fmt.Errorf("baseline %s is for transports between processes: udp, shm, roce", name)
	case name == contenders.Raw && s.Transport == "sim":
		return fmt.Errorf("baseline %s says what the machine can do over UDP, beside udp, shm, roce and mem", name)
	case (name == contenders.Raw || name == contenders.Naive) && s.Together && s.Subs > 1:
		return fmt.Errorf("baseline %s has a process for each subscriber: leave -together out", name)
	case name == contenders.Raw && paced && s.Size > contenders.MaxRawPaced:
		return fmt.Errorf("baseline %s sends a datagram a message in %s, which holds %d bytes at most, not %d", name, scenario, contenders.MaxRawPaced, s.Size)
	case name == contenders.Raw && s.Topics > 1 && (scenario != "throughput" || s.Size > contenders.MaxRawTopical(s.socketMTU())):
		return fmt.Errorf("baseline %s goes through many topics in throughput only, with messages of %d bytes at most where datagrams have %d", name, contenders.MaxRawTopical(s.socketMTU()), s.socketMTU())
	case name == contenders.Ring && (s.Transport != "shm" || s.Together && s.Subs > 1 || s.Topics > 1):
		return fmt.Errorf("baseline %s is for -transport shm, one topic, and a process for each subscriber", name)
	case name == contenders.Ring && paced && s.Size > contenders.MaxRingPaced:
		return fmt.Errorf("baseline %s has a slot a message in %s, which holds %d bytes at most, not %d", name, scenario, contenders.MaxRingPaced, s.Size)
	case name == contenders.UDP && (s.InProcess() || s.Transport == "udp"):
		return fmt.Errorf("baseline %s is Fanfare over plain UDP, for other transports between processes: shm, roce", name)
	case name == contenders.Channel && !slices.Contains(contenders.ChannelSizes(), s.Size):
		return fmt.Errorf("baseline %s has messages of %v bytes, not of %d", name, contenders.ChannelSizes(), s.Size)
	case name == contenders.Naive && s.Size > MTU64K:
		return fmt.Errorf("baseline %s sends a datagram a message, which holds %d bytes at most, not %d", name, MTU64K, s.Size)
	}
	return nil
}
