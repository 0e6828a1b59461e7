package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// count returns the number of messages in a packet with these runs.
func count(runs []byte) (n int) {
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		n += int(run.Messages())
	}
	return n
}

// Nothing is allocated from Append to the output: in order, and with losses that are repaired; in
// place and through a cursor.
func TestNothingIsAllocatedPerMessage(t *testing.T) {
	for _, c := range []struct {
		name   string
		lose   int // one of this many packets is lost once
		cursor bool
		lent   bool // packets may be kept in place
	}{{"in order", 0, false, false}, {"with losses", 7, false, false}, {"with losses, kept in place", 7, false, true}, {"cursor", 0, true, false}, {"cursor with losses", 7, true, true}} {
		t.Run(c.name, func(t *testing.T) {
			now := Instant(time.Hour)
			cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, MaxTrain: 16, MaxTrainBytes: 1 << 16, WindowPackets: 256, Checksum: true})
			s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*cfg.Blocks()), now)
			if err != nil {
				t.Fatal(err)
			}
			w := s.NewWriter()
			x := newTopic("a.b")
			messages := 0
			sink := &log{onPacket: func(_ *Stream, runs []byte) { messages += count(runs) }}
			rc := receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, Checksum: true, Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 2))})
			loans := newLender(t, 100)
			loans.fixed = true // memory of the sender, valid for a window
			if c.lent {
				rc.Loans = loans
			}
			r, err := NewReceiver(rc, sink, sink)
			if err != nil {
				t.Fatal(err)
			}
			loans.r = r
			r.SetWanted(true)
			var (
				msg  [64]byte
				tr   transport.Outbound
				buf  = make([]byte, 0, 2048)
				cur  *ring.Cursor
				read int
			)
			round := func() {
				for range 100 {
					for !w.Append(x, msg[:]) {
						s.Assign(now, w, false)
						if !s.Grant(w.Packets) {
							t.Fatal("no memory")
						}
					}
				}
				s.Assign(now, w, true)
				for range 3 {
					for s.Next(now, &tr) {
						for i := range tr.Count {
							p := tr.Data[i*tr.Stride:][:tr.Lens[i]]
							if seq := p[32]; c.lose > 0 && wire.Type(p[3]) == wire.TypeData && wire.Flags(p[4])&wire.FlagRepair == 0 && int(seq)%c.lose == 3 {
								continue
							}
							loans.lend(now, p)
						}
						s.Sent(now, tr.Count, s.out.posted+uint64(tr.Count))
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
				if c.cursor && cur == nil {
					cur = attach(r.Streams()[0], true)
				}
				for cur != nil {
					item, p, ok := cur.Lease()
					if !ok {
						break
					}
					if item.Note != nil {
						t.Fatalf("item %+v", item)
					}
					read += count(PacketData(p))
					cur.Return()
				}
				if cur != nil {
					resume(r, now)
				}
			}
			for range 50 {
				round()
			}
			before := messages
			if n := testing.AllocsPerRun(100, round); n != 0 {
				t.Errorf("%v allocations in a round of 100 messages", n)
			}
			if got := messages - before; got < 100*100 {
				t.Errorf("%d messages delivered, want 10100", got)
			}
			if c.cursor && read < 100*100 {
				t.Errorf("%d messages read with the cursor", read)
			}
			if c.lent && (loans.uses == 0 || loans.out() > 0) {
				t.Errorf("%d packets were kept in place, %d still are", loans.uses, loans.out())
			}
			if c.lose > 0 && (r.Stats().Repaired == 0 || r.Stats().Lost > 0) {
				t.Errorf("%d repaired, %d lost", r.Stats().Repaired, r.Stats().Lost)
			}
		})
	}
}
