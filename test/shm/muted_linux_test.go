package shm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/shm"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// cuttable is a leg of shared memory whose senders can be cut off: what they send is gone, or data alone.
type cuttable struct {
	transport.Transport
	cut, cutData atomic.Bool
}

type cuttableSender struct {
	transport.Sender
	of   *cuttable
	gone uint64
}

func (c *cuttable) NewSender(group int) (transport.Sender, error) {
	s, err := c.Transport.NewSender(group)
	return &cuttableSender{Sender: s, of: c}, err
}

func (s *cuttableSender) Completed() uint64 { return s.Sender.Completed() + s.gone }

func (s *cuttableSender) Send(out *transport.Outbound) (int, error) {
	if s.of.cut.Load() || s.of.cutData.Load() && wire.Type(out.Data[3]) == wire.TypeData {
		s.gone += uint64(out.Count)
		return out.Count, nil
	}
	return s.Sender.Send(out)
}

// network is a port of loopback and a directory in memory.
type network struct {
	t    *testing.T
	port int
	dir  string
}

// bus opens one on UDP, and on shared memory if that is not nil.
func (n network) bus(memory **cuttable) *pubsub.Bus {
	n.t.Helper()
	var all transport.Transport
	lo, err := udp.Open(udp.Config{Interface: "lo", Port: n.port})
	if err != nil {
		n.t.Fatal(err)
	}
	if all = lo; memory != nil {
		l, err := shm.Open(shm.Config{Name: "muted", Dir: n.dir})
		if err != nil {
			n.t.Fatal(err)
		}
		*memory = &cuttable{Transport: l}
		if all, err = legs.New([]transport.Transport{lo, *memory}, []string{"wire", "memory"}); err != nil {
			n.t.Fatal(err)
		}
	}
	bus, err := pubsub.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), RecoveryDeadline: time.Minute, Silence: 30 * time.Second}.OpenTransport(all)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { bus.Close() })
	return bus
}

// reading reads the numbers from 0 on, each once and in order.
type reading struct {
	next   atomic.Int64
	failed chan error
}

func readNumbers(ctx context.Context, sub *pubsub.Subscription) *reading {
	r := &reading{failed: make(chan error, 1)}
	go func() {
		for i := int64(0); ; i++ {
			m, err := sub.Next(ctx)
			if err == nil && string(m.Data) != strconv.FormatInt(i, 10) {
				err = fmt.Errorf("message %d is %q", i, m.Data)
			}
			if err != nil {
				r.failed <- err
				return
			}
			r.next.Store(i + 1)
		}
	}()
	return r
}

// await waits until cond holds, while nothing fails.
func await(t *testing.T, ctx context.Context, what string, all []*reading, cond func() bool) {
	t.Helper()
	for !cond() {
		for i, r := range all {
			select {
			case err := <-r.failed:
				t.Fatalf("subscriber %d, waiting until %s: %v", i, what, err)
			case <-ctx.Done():
				t.Fatalf("never %s", what)
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// A subscriber of the publisher's host takes all data from shared memory and none from the wire, as long as
// that works. When it does not, whichever side fails and however, the wire brings all that follows: no gap,
// nothing twice. One that is on the wire alone gets all from there.
func TestMemoryBringsAllThatIsLocal(t *testing.T) {
	testenv.Slow(t)
	for name, kill := range map[string]func(from, to *cuttable){
		"publisher's leg ends":  func(from, _ *cuttable) { from.Close() },
		"subscriber's leg ends": func(_, to *cuttable) { to.Close() },
		"silence":               func(from, _ *cuttable) { from.cut.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			n := network{t, testenv.Port(t), scratch(t)}
			noRoom := sys.OpenNoRoom(false)
			defer noRoom.Close()
			before := noRoom.Count()
			var fromMemory, toMemory *cuttable
			from, both, alone := n.bus(&fromMemory), n.bus(&toMemory), n.bus(nil)
			pub, err := from.Publisher(topic)
			if err != nil {
				t.Fatal(err)
			}
			var all []*reading
			for _, bus := range []*pubsub.Bus{both, alone} {
				sub, err := bus.Subscribe(topic)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, readNumbers(ctx, sub))
			}
			if err := pub.WaitSubscribers(ctx, 2); err != nil {
				t.Fatal(err)
			}
			var stop atomic.Bool
			sent := make(chan int64, 1)
			go func() {
				i := int64(0)
				for buf := []byte(nil); !stop.Load(); i++ {
					if pub.Publish(ctx, strconv.AppendInt(buf[:0], i, 10)) != nil {
						break
					}
					if i%1000 == 0 {
						time.Sleep(time.Microsecond) // others have to live, too
					}
				}
				pub.Flush(ctx)
				sent <- i
			}()
			leg := func(i int) *pubsub.LegStats { return &both.Stats().Legs[i] }
			more := func(messages int64) {
				t.Helper()
				end := all[0].next.Load() + messages
				await(t, ctx, "more is read", all, func() bool { return all[0].next.Load() >= end })
			}
			await(t, ctx, "the wire is muted", all, func() bool { return leg(0).Muted == 1 })
			var wire, memory pubsub.LegStats
			for once := true; once || leg(0).Packets > wire.Packets; once = false { // what the socket had already
				wire, memory = *leg(0), *leg(1)
				more(50_000)
			}
			more(500_000)
			after := *leg(0)
			brought := leg(1).Packets - memory.Packets
			// A host that is very busy may take memory for dead, for a moment.
			if n := after.Packets - wire.Packets; n > brought/4 || brought == 0 || after.Lost > 0 {
				t.Errorf("the wire brought %d packets of data and memory %d; %+v", n, brought, after)
			}
			// The kernel has one number for what a socket keeps out and what it has no room for. That of the host is of the
			// latter alone, of all its programs.
			if most := noRoom.Count() - before; after.Transport.ReceiveOverflow > most {
				t.Errorf("%d packets count as dropped for want of room, and the host has dropped %d: the others were kept out", after.Transport.ReceiveOverflow, most)
			}
			t.Logf("memory brought %d packets; %d came by the wire, %d of them data", brought, after.Transport.PacketsReceived-wire.Transport.PacketsReceived, after.Packets-wire.Packets)
			kill(fromMemory, toMemory)
			await(t, ctx, "the wire is heard", all, func() bool { return leg(0).Muted == 0 && leg(0).Packets > after.Packets })
			more(100_000)
			stop.Store(true)
			last := <-sent
			await(t, ctx, "all is read", all, func() bool { return all[0].next.Load() == last && all[1].next.Load() == last })
			for _, bus := range []*pubsub.Bus{both, alone} {
				for _, g := range bus.Stats().Groups {
					if g.Lost > 0 {
						t.Errorf("%d packets are lost", g.Lost)
					}
				}
			}
		})
	}
}
