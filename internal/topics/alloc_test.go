package topics

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// The path from Append to the reader's message allocates nothing: in order or with repaired losses, by messages or by
// runs.
func TestNothingIsAllocatedPerMessage(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  int // one packet in so many is lost once; 0: none
		byRun bool
	}{{"in order", 0, false}, {"in order, by runs", 0, true}, {"with losses", 7, false}, {"with losses, by runs", 7, true}} {
		t.Run(c.name, func(t *testing.T) {
			now := reliable.Instant(time.Hour)
			cfg := reliable.SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, MaxTrain: 16, MaxTrainBytes: 1 << 16, WindowPackets: 256, Checksum: true,
				RepairShare: 0.5, Silence: time.Second}
			s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*cfg.Blocks()), now)
			if err != nil {
				t.Fatal(err)
			}
			m := NewSender(s, nil, nil)
			w := m.NewWriter()
			x, _ := m.Topic("a.b")
			reader := &runSink{rd: NewReader(0, 1<<20)}
			reader.rd.Want(x.ID, x.Name, nil)
			r := newReceiver(t, x.Name, func(e *reliable.Event) {
				if c.byRun {
					reader.deliver(e)
					return
				}
				for reader.rd.Take(e); reader.rd.Next(&reader.it); {
					reader.messages++
				}
			})
			var (
				msg    [64]byte
				tr     transport.Outbound
				buf    = make([]byte, 0, 2048)
				posted uint64
			)
			round := func() {
				for range 100 {
					for !w.Append(x, msg[:]) {
						m.Assign(now, w, false)
						if !s.Grant(w.Packets) {
							t.Fatal("Grant returned false, want memory")
						}
					}
				}
				m.Assign(now, w, true)
				for range 3 {
					for s.Next(now, &tr) {
						for i := range tr.Count {
							p := tr.Data[i*tr.Stride:][:tr.Lens[i]]
							if c.lose > 0 && wire.Type(p[3]) == wire.TypeData && wire.Flags(p[4])&wire.FlagRepair == 0 && int(p[32])%c.lose == 3 {
								continue
							}
							r.Handle(now, 1, p)
						}
						posted += uint64(tr.Count)
						s.Sent(now, tr.Count, posted)
					}
					r.Tick(now)
					for {
						_, p, ok := r.Next(now, buf[:0])
						if !ok {
							break
						}
						s.Handle(now, p, nil)
					}
					now = now.Add(time.Millisecond)
				}
			}
			for range 50 {
				round()
			}
			before := reader.messages
			if n := testing.AllocsPerRun(100, round); n != 0 {
				t.Errorf("%v allocations in a round of 100 messages, want 0", n)
			}
			if got := reader.messages - before; got < 100*100 {
				t.Errorf("%d messages delivered, want at least 10000", got)
			}
			if c.lose > 0 && (r.Stats().Repaired == 0 || r.Stats().Lost > 0) {
				t.Errorf("%d packets repaired and %d lost, want some and none", r.Stats().Repaired, r.Stats().Lost)
			}
		})
	}
}
