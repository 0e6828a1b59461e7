package rdmatest

import (
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Tags are where a statement can be observed, and the kind of a provider.
type Tags uint

const (
	IB      Tags = 1 << iota // InfiniBand
	RoCE                     // RoCEv2
	Wire                     // bytes of packets can be seen and made
	Kernel                   // a real kernel
	Interop                  // rdma-core's programs on the other side
)

// Target is a provider under test.
type Target struct {
	Name string
	// Tags of the provider: IB or RoCE, and what else it has.
	Tags Tags
	// NotMet are statements that the provider does not meet, by number, with the reason. They are not run.
	NotMet map[int]string
	// Wire and Interop are the provider's own tests of the statements with
	// these tags, by number; needed if it has the tag.
	Wire, Interop map[int]func(t *testing.T)
	// Open makes a network for one statement; t.Cleanup ends it. ErrCannot says that the provider has no such network.
	Open func(t testing.TB, o Options) (*Net, error)
}

// ErrCannot is returned by Open for options that the provider cannot offer.
var ErrCannot = errors.New("rdmatest: the provider cannot do that")

// Options of a network. Zero values are defaults.
type Options struct {
	Hosts int // at least 1
	// NoMulticast makes devices with MaxMcastGrp 0; MaxMcastQPAttach, if not 0, is their limit.
	NoMulticast      bool
	MaxMcastQPAttach int
	// PKey and Scope of IPoIB.
	PKey  rdma.PKey
	Scope uint8
	// NoSendOnly is a subnet manager without send-only full members, Silent one that does not answer.
	NoSendOnly, Silent bool
	// OddRecord makes the subnet administrator decide for new groups SL 3,
	// flow label 0x12345, hop limit 7, traffic class 0x5c, rate 6 (20 Gbit/s).
	OddRecord bool
	// NoRoute leaves out the hosts' route to multicast addresses.
	NoRoute bool
}

// Net is a network of hosts, with functions that change it. A nil function means that the provider cannot.
type Net struct {
	Hosts []Host
	// Settle completes pending work.
	Settle func()
	// Advance lets time pass.
	Advance func(d time.Duration)
	// Privileged hosts may use Q_Keys with bit 31.
	Privileged bool

	// Trace returns the requests that the management received since the last call.
	Trace func() []Record
	// Group is the subnet administrator's record of a group, as an address
	// handle's attributes: DLID, SL, static rate and GRH.
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

// Record is a message of management that was seen.
type Record struct {
	Kind  RecordKind
	Host  int
	MGID  rdma.GID
	State rdma.JoinState // of SASet and SADelete
}
