package rdmatest

import (
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Tags are the conditions for a statement, and the kind of a provider.
type Tags uint

const (
	IB      Tags = 1 << iota // InfiniBand
	RoCE                     // RoCEv2
	Wire                     // bytes of packets can be read and made
	Kernel                   // a real kernel
	Interop                  // rdma-core's programs on the other side
)

// Target is a provider under test.
type Target struct {
	Name string
	// Tags of the provider: IB or RoCE, and further ones.
	Tags Tags
	// NotMet has the statements that the provider does not meet, by number, with the reasons. They are not run.
	NotMet map[int]string
	// Wire and Interop have the provider's tests for the statements with these tags, by number. They are required if it
	// has the tag.
	Wire, Interop map[int]func(t *testing.T)
	// Open makes a network for one statement; t.Cleanup ends it. Error ErrCannot: the provider does not support the
	// options.
	Open func(t testing.TB, o Options) (*Net, error)
}

// ErrCannot is returned by Open for options that the provider does not support.
var ErrCannot = errors.New("rdmatest: the provider does not support these options")

// Options of a network. Zero values are defaults.
type Options struct {
	Hosts int // at least 1
	// NoMulticast: devices have MaxMcastGrp 0. MaxMcastQPAttach, if not 0, is the limit of devices.
	NoMulticast      bool
	MaxMcastQPAttach int
	// PKey and Scope of IPoIB.
	PKey  rdma.PKey
	Scope uint8
	// NoSendOnly: the subnet manager does not support send-only full members. Silent: it does not answer.
	NoSendOnly, Silent bool
	// OddRecord: the subnet administrator chooses for new groups SL 3, flow label 0x12345, hop limit 7, traffic class
	// 0x5c, rate 6 (20 Gbit/s).
	OddRecord bool
	// NoRoute: hosts have no route to multicast addresses.
	NoRoute bool
}

// Net is a network of hosts, with functions that change it. A function is nil if the provider does not support it.
type Net struct {
	Hosts []Host
	// Settle completes pending events.
	Settle func()
	// Advance advances the time by d.
	Advance func(d time.Duration)
	// Privileged hosts may use Q_Keys with bit 31.
	Privileged bool

	// Trace returns the requests to the subnet administrator, and IGMP messages, since the last call.
	Trace func() []Record
	// Group returns the subnet administrator's record of a group as attributes of an address handle: DLID, SL, static rate
	// and GRH.
	Group func(mgid rdma.GID) (rdma.AHAttr, bool)

	SetPort      func(host int, up bool)
	ChangeLID    func(host int)
	Reregister   func(host int)
	SetPKeys     func(host int, keys ...rdma.PKey)
	RemoveDevice func(host int)
	SetIPoIB     func(host int, up bool)
	RemoveGIDs   func(host int)
	SetNetDevMTU func(host int, bytes int)
}

// Host is a host of a network.
type Host struct {
	Provider rdma.Provider
	// Addr is the address of the port that the suite uses.
	Addr rdma.Addr
}

// RecordKind is the kind of a Record.
type RecordKind uint8

const (
	SASet RecordKind = iota
	SADelete
	IGMPReport
	IGMPLeave
)

// Record is a request to the subnet administrator or an IGMP message.
type Record struct {
	Kind  RecordKind
	Host  int
	MGID  rdma.GID
	State rdma.JoinState // only of SASet and SADelete
}
