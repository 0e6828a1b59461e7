package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/groupmap"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// Open opens a bus on the fabric that rawURL names, with the zero Config:
//
//	udp://239.20.0.0/16?iface=eth0   UDP multicast (package transport/udp)
//	mem://name                       within this process (package transport/mem)
//	shm://name                       between processes of one host, over shared memory,
//	                                 on Linux (package transport/shm)
//	rdma://mlx5_0                    an InfiniBand or RoCE adapter, by the name of
//	                                 the device, of its interface, or an address;
//	                                 in programs built with the tag rdma
//	                                 (package transport/verbsnet)
//	roce://eth0                      RoCEv2, the UDP of RDMA, in user space, with
//	                                 NICs and Soft-RoCE on the other side (package
//	                                 transport/rocenet)
//	sim://name?loss=0.01             a simulated InfiniBand or RoCE subnet within
//	                                 this process (package transport/simnet)
//
// Every fabric has the options groups=N, the number of multicast groups that topics are spread over, and map=, the
// rule:
//
//	map=hash         by the name of the topic, the default
//	map=prefix:K     by its first K tokens: md.xnas.AAPL and md.xnas.MSFT are in one
//	                 group with map=prefix:2
//	map=table:FILE   by the lines of a file, each a pattern and a group or a range of
//	                 groups, such as "md.xnas.> 0-31". * stands for one token, > for all
//	                 that follow, # begins a comment. The first line that matches
//	                 counts; topics that none matches are spread over all groups
//
// and keys=FILE, a file of keys: every packet is encrypted and authenticated, and cannot be read, forged or changed
// without a key (Config.Keys). With sign=FILE this bus signs its messages with the key of a file (Config.Sign), and
// with trust=FILE it receives only publishers that a file trusts, each on the topics that it may publish
// (Config.Trust).
//
// A bus has one goroutine that receives and calls handlers, so one core bounds it. For more throughput open several
// buses, and divide the topics among them.
//
// A bus joins the groups of the topics that it subscribes to, and no others. Packets of other topics in
// these groups are counted: stats.Group.UnwantedBytes.
//
// With pad=N packets are padded to a multiple of N bytes, as Config.Pad says. clock=NAME names the source that the
// clock of this host follows, as Config.Clock does.
//
// Buses that exchange messages must open the same fabric: the same addresses, the same number of groups, the same map
// and the same keys. Buses on the same addresses that differ report each other: events.ConfigMismatch, or
// ConfigDiffers if that is harmless. ctx bounds only the opening.
//
// Each of several URLs is a leg: a path that carries the same packets, such as a second network interface, a second
// range of groups, or RoCE in addition to UDP. Packets are sent on every leg, and receivers use the first copy of
// each. Only packets that are lost on all legs are requested again. A leg that fails is an Event of kind
// events.LegDown, and no gap. Legs have the same number of groups; map=, keys=, sign=, trust= and pad= are needed in
// one URL only, and the leg with the smallest packets sets the packet size. Buses that share at least one leg receive
// each other's packets; if they do not share all legs, events.ConfigDiffers reports it, which is harmless.
func Open(ctx context.Context, rawURL string, legs ...string) (*Bus, error) {
	return Config{}.Open(ctx, rawURL, legs...)
}

// Open opens a bus with this configuration, as the function Open does.
func (c Config) Open(ctx context.Context, rawURL string, legs ...string) (*Bus, error) {
	if ctx == nil {
		return nil, failed("open", "", engine.ErrNilContext)
	}
	if ctx.Err() != nil {
		return nil, failed("open", "", engine.ContextError(ctx))
	}
	fabrics, strategy, files, err := parseFabrics(append([]string{rawURL}, legs...))
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(c.padding(fabrics), c.clocks(fabrics)); err != nil {
		return nil, err
	}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	var faults faulty.Config
	if c.Faults != "" {
		if faults, err = faulty.Parse(c.Faults); err != nil {
			return nil, openError(fabrics[0], err)
		}
	}
	open := c.isOpen(files.keys, allClosed(fabrics))
	t, opened, err := c.openFabrics(fabrics, faults)
	if err != nil {
		return nil, err
	}
	opened.open = open
	if t, err = c.seal(t, files); err != nil {
		return nil, &URLError{rawURL, err}
	}
	b, err := c.open(t, strategy, opened, files)
	if err != nil {
		endTransport(t)
		if of, ok := err.(configError); ok {
			return nil, failed("open", rawURL, of.error)
		}
		return nil, &URLError{rawURL, err}
	}
	return b, nil
}

// configError is an error of a Config, not of a URL.
type configError struct{ error }

// openError is the error of opening f; f is nil if its URL cannot be parsed.
func openError(f *fabricurl.Fabric, err error) error {
	var of *fabricurl.Error
	if errors.As(err, &of) {
		return &URLError{of.URL, of.Err}
	}
	return failed("open", f.String(), err)
}

// OpenTransport opens a bus on t, which the bus owns from then on and closes. Config.Faults is not applied, and
// topics map to groups by hash.
func (c Config) OpenTransport(t transport.Transport) (*Bus, error) {
	if t == nil {
		return nil, failed("open", "", errors.New("the transport is nil"))
	}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	fabric := openedFabric{local: true, open: c.isOpen("", slices.Contains([]string{"mem", "shm"}, t.Capabilities().Name))} // packets of other transports may leave the host
	t, err := c.seal(t, busFiles{})
	if err != nil {
		return nil, failed("open", "", err)
	}
	b, err := c.open(t, groupmap.Strategy{}, fabric, busFiles{})
	return b, failed("open", "", err)
}

func (c Config) open(t transport.Transport, s groupmap.Strategy, fabric openedFabric, files busFiles) (*Bus, error) {
	caps := t.Capabilities()
	if caps.PacketSize < wire.MinPacket {
		seal := t.Capabilities().SealOverhead
		return nil, fmt.Errorf("packets of %d bytes are too small: use %d at least", caps.PacketSize+seal, wire.MinPacket+seal)
	}
	groups, err := s.Over(caps.Groups)
	if err != nil {
		return nil, err
	}
	fabric.since = time.Now()
	b := &Bus{cfg: c, groups: groups, fabric: fabric}
	dc := engine.Config{
		Sender: reliable.SenderConfig{Rate: c.Rate, RepairShare: c.RepairShare,
			Silence: c.Silence, StallLimit: max(c.StallLimit, 0)},
		Receiver: reliable.ReceiverConfig{
			WindowBytes: c.ReceiveWindowBytes, MemoryBytes: c.ReceiveMemoryBytes,
			Name: shownName(c.Name), Tag: c.Tag,
			MaxStreams: c.MaxPublishers, Deadline: c.RecoveryDeadline,
		},
		MaxMessage: c.MaxMessage, StateShare: c.StateShare,
		WindowBytes: c.WindowBytes, WindowsBytes: c.PublishMemoryBytes,
		FlushAfter: c.FlushAfter, Wait: waits[c.Wait], Logger: c.Logger,
	}
	dc.Mapping = groups.Wire()
	if dc.Compression, err = c.packs.open(); err != nil {
		return nil, err
	}
	dc.Sender.Flow, dc.Sender.Slow = c.FlowControl.strategy(),
		reliable.SlowLimit{Behind: uint64(c.SlowBehind), For: c.SlowFor}
	dc.Sender.Pad = c.pad(files)
	dc.Receiver.Pad = dc.Sender.Pad
	if dc.Clock, err = c.clock(); err != nil {
		return nil, fmt.Errorf("read the name of this host's clock: %w", err)
	}
	dc.Name, dc.Epoch, dc.Receiver.Loopback = c.Name, c.epoch, c.Loopback
	if c.Name != "" {
		dc.Publisher = events.ID(wire.TopicID("publisher:"+c.Name) | 1)
	}
	if c.OnEvent != nil {
		dc.Events = func(e events.Event) { c.OnEvent(publicEvent(e)) }
	}
	if c.Trace != nil {
		dc.Trace = c.Trace.call
	}
	dc.Interface = strings.Join(fabric.interfaces, ", ")
	shown := c.Inspect == InspectOn || c.Inspect == InspectAuto && !fabric.local
	if shown {
		dc.RecentEvents = inspect.MaxEvents
	}
	b.losses = lossrecord.New(time.Now())
	dc.Losses, dc.CauseLabel, dc.Sample = b.losses, labelOf, b.sampleLosses
	if err := c.sign(&dc, t, files); err != nil {
		if files.sign == "" && files.trust == "" {
			err = configError{err}
		}
		return nil, err
	}
	b.loop, b.hide = engine.Open(t, dc), func() {}
	if shown {
		b.hide = inspect.Register(view{b}, c.Logger)
	}
	return b, nil
}
