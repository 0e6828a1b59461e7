package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// Settings are what may be chosen of a measurement. They are part of each
// result.
type Settings struct {
	Transport string  `json:"transport"` // one of Transports
	URL       string  `json:"url"`       // of the fabric; empty: made from Transport, Interface and MTU
	Interface string  `json:"interface"`
	MTU       int     `json:"mtu"`            // bytes in a datagram, at most
	MTUs      []int   `json:"mtus,omitempty"` // of the scenario sizes; empty: DefaultMTUs
	Size      int     `json:"size"`           // bytes in a message
	Subs      int     `json:"subs"`
	Together  bool    `json:"subs_in_one_process"` // subscribers are goroutines of one process
	Loss      float64 `json:"loss"`                // share of packets that each subscriber loses
	Seed      int     `json:"seed"`                // of the loss
	Runs      int     `json:"runs"`
	Seconds   float64 `json:"seconds"` // of each run
	// Baselines are names of contenders.
	Baselines []string `json:"baselines"`
	// Publishers: the first is "ours", others are reported beside it.
	Publishers []worker.Publisher `json:"publishers"`
	Receive    worker.Receive     `json:"receive"`
	Wait       worker.Wait        `json:"wait"` // of subscribers
	Pace       worker.Wait        `json:"pace"` // of the publisher between messages
	Rate       float64            `json:"rate"` // messages a second, of latency
	Burst      int                `json:"burst"`
	Every      time.Duration      `json:"every_ns"` // from burst to burst
	RecvBuf    int                `json:"rcvbuf"`   // bytes asked for, by all contenders
	SendBuf    int                `json:"sndbuf"`
	CheckAll   bool               `json:"check_all"` // every byte of every message is checked
	// Target is the share of each baseline's throughput that ours is to reach: the
	// result says whether it does; 0: it says nothing.
	Target float64 `json:"target,omitempty"`
	// Profile is a directory for CPU profiles of all workers; empty: none are
	// made.
	Profile string `json:"profile,omitempty"`
	// Metrics is where to serve metrics, in a contest with "ours", which then
	// does not; empty: nowhere.
	Metrics string `json:"metrics,omitempty"`
}

// MTU64K is the largest UDP payload over IPv4.
const MTU64K = 65507

// Transports are the names of fabrics.
func Transports() []string { return []string{"udp", "mem", "roce", "sim"} }

// Defaults are good settings for a transport.
func Defaults(transport string) Settings {
	mtu := 1472
	if transport == "mem" {
		mtu = mem.DefaultPacketSize
	}
	return Settings{
		Transport: transport, Interface: loopback(), MTU: mtu, Size: 64, Subs: 1, Seed: 1, Runs: 5, Seconds: 2,
		Publishers: []worker.Publisher{worker.PublisherExclusive, worker.PublisherShared},
		Receive:    worker.ReceiveHandle, Wait: worker.WaitAdaptive, Pace: worker.WaitSpin,
		Rate: 50000, Burst: 1000, Every: 10 * time.Millisecond,
		RecvBuf: 8 << 20, SendBuf: 2 << 20,
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

// loopback is the name of the loopback interface.
func loopback() string {
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	return "lo"
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

// maxMTU is the largest datagram of the transport.
func (s *Settings) maxMTU() int {
	if s.overRDMA() {
		return rdmaMTU
	}
	return MTU64K
}

// InProcess reports whether the transport does not leave the process.
func (s *Settings) InProcess() bool { return s.Transport == "mem" || s.Transport == "sim" }

// Check says what is wrong, and what to do about it.
func (s *Settings) Check(known worker.Contenders) error {
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
	case s.Target > 0 && len(s.Baselines) == 0:
		return errors.New("-target is a share of a baseline's throughput: name one with -baseline")
	case s.RecvBuf < 1<<12 || s.RecvBuf > 1<<30 || s.SendBuf < 1<<12 || s.SendBuf > 1<<30:
		return fmt.Errorf("-rcvbuf and -sndbuf must be from 4096 to %d bytes", 1<<30)
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != s.Transport {
			return fmt.Errorf("-t %q must be a URL of transport %s: %s://…", s.URL, s.Transport, s.Transport)
		}
	}
	if _, err := net.InterfaceByName(s.Interface); err != nil && !s.InProcess() && s.URL == "" {
		return fmt.Errorf("-iface %q is not an interface of this host", s.Interface)
	}
	for _, b := range s.Baselines {
		if err := s.checkBaseline(b, known); err != nil {
			return err
		}
	}
	return nil
}

// DefaultBaselines are the baselines that say most about a scenario.
func (s *Settings) DefaultBaselines(scenario string) []string {
	if s.InProcess() {
		if slices.Contains(contenders.ChannelSizes(), s.Size) {
			return []string{contenders.Channel}
		}
		return []string{}
	}
	switch scenario {
	case "throughput", "all":
		if s.Size <= MTU64K {
			return []string{contenders.Raw, contenders.Naive}
		}
		return []string{contenders.Raw}
	case "loss", "idle":
		return []string{}
	}
	return []string{contenders.Raw}
}

func (s *Settings) checkBaseline(name string, known worker.Contenders) error {
	_, ok := known[name]
	switch {
	case !ok || name == contenders.Fanfare:
		names := slices.DeleteFunc(known.Names(), func(n string) bool { return n == contenders.Fanfare })
		return fmt.Errorf("-baseline %q is not one of %s", name, strings.Join(names, ", "))
	case name == contenders.Channel && !s.InProcess():
		return fmt.Errorf("-baseline %s is for transports within a process: mem, sim", name)
	case (name == contenders.Raw || name == contenders.Naive) && s.InProcess():
		return fmt.Errorf("-baseline %s is for transports between processes: udp, roce", name)
	case name == contenders.UDP && (s.InProcess() || s.Transport == "udp"):
		return fmt.Errorf("-baseline %s is Fanfare over plain UDP, for other transports between processes: roce", name)
	case name == contenders.Channel && !slices.Contains(contenders.ChannelSizes(), s.Size):
		return fmt.Errorf("-baseline %s has messages of %v bytes, not of %d", name, contenders.ChannelSizes(), s.Size)
	case name == contenders.Naive && s.Size > MTU64K:
		return fmt.Errorf("-baseline %s sends a datagram a message, which holds %d bytes at most, not %d", name, MTU64K, s.Size)
	}
	return nil
}

// fabric is the URL of Fanfare's fabric for one run.
func (s *Settings) fabric(port int) (string, error) {
	if s.URL != "" {
		return s.completed(port)
	}
	q := url.Values{}
	switch s.Transport {
	case "udp":
		q.Set("iface", s.Interface)
		q.Set("port", fmt.Sprint(port))
		q.Set("size", fmt.Sprint(s.MTU))
		q.Set("rcvbuf", fmt.Sprint(s.RecvBuf))
		q.Set("sndbuf", fmt.Sprint(s.SendBuf))
		return "udp://239.20.0.0/16?" + q.Encode(), nil
	case "mem":
		q.Set("size", fmt.Sprint(s.MTU))
		return fmt.Sprintf("mem://bench-%d?%s", port, q.Encode()), nil
	case "sim":
		return fmt.Sprintf("sim://bench-%d?size=%d", port, s.MTU), nil
	}
	// RoCE has one port: runs are told apart by their groups.
	return fmt.Sprintf("roce://%s/239.%d.%d.0/24?size=%d", s.Interface, 21+port>>8%200, port&0xff, s.MTU), nil
}

// URLSize is the size that the URL gives packets, or 0 if it does not tell.
func (s *Settings) URLSize() int {
	u, err := url.Parse(s.URL)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(u.Query().Get("size"))
	return n
}

// completed is the URL with what it leaves open. Over UDP it gets a port that nothing else
// uses, for runs must not hear each other's farewells; the interface, for nothing goes out
// at the one with the default route unless that is asked for; and the buffers.
func (s *Settings) completed(port int) (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", err
	}
	q := u.Query()
	complete := func(name string, val any) {
		if !q.Has(name) {
			q.Set(name, fmt.Sprint(val))
		}
	}
	complete("size", s.MTU)
	if s.Transport == "udp" {
		if u.Port() == "" {
			complete("port", port)
		}
		complete("iface", s.Interface)
		complete("rcvbuf", s.RecvBuf)
		complete("sndbuf", s.SendBuf)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// baselineGroup is where baselines send.
func baselineGroup(port int) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{239, 20, 255, 1}), uint16(port)).String()
}
