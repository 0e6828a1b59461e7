package contenders

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/sealed/hostile"
)

const (
	// hostilePool is how many packets an attacker makes at a time, and hostileFor how long it sends those: to make one takes
	// longer than to send it. The first pool is of firstPool, and each is twice the one before: an attack begins at once.
	hostilePool, firstPool = 2048, 64
	hostileFor             = 250 * time.Millisecond
	// hostileSight is how many packets it takes in for a pool, a tenth of them for firstPool.
	hostileSight, firstSight = 200, 20
	// foreignPackets are those of other keys and of long ago that it has.
	foreignPackets = 50
)

// sealingKey is that of sealed runs. It is no secret, and protects nothing.
func sealingKey() pubsub.Key {
	return pubsub.Key{ID: 1, Secret: sha256.Sum256([]byte("fanfare bench"))}
}

// Attack implements worker.Attacker: who sees all that goes to groups, and sends what he likes to them and to their
// senders, as fast as he can, or who spins for as long.
func (fanfare) Attack(ctx context.Context, r *worker.Run) error {
	if r.Spec.Attack == worker.AttackSpin {
		r.Ready("")
		for !r.Over() && ctx.Err() == nil {
		}
		return nil
	}
	f, err := fabricurl.Parse(r.Spec.URL)
	if err != nil {
		return err
	}
	t, err := f.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	a := &attacker{t: t, batch: transport.NewBatch(16), size: firstPool, sight: firstSight}
	defer a.end()
	if err := a.begin(&r.Spec); err != nil {
		return err
	}
	r.Ready("")
	for !r.Over() && ctx.Err() == nil {
		if err := a.look(ctx, r); err != nil {
			return err
		}
		for until := time.Now().Add(hostileFor); a.Seen() > 0 && time.Now().Before(until) && !r.Over() && ctx.Err() == nil; {
			if err := a.send(); err != nil {
				return err
			}
		}
	}
	r.Figures(map[string]float64{"hostile_packets": float64(a.sent), "hostile_s": time.Since(a.began).Seconds()})
	return nil
}

// attacker sends hostile packets from a pool that it makes of what it has seen of late.
type attacker struct {
	hostile.Maker
	t       transport.Transport
	batch   *transport.Batch
	senders []transport.Sender
	live    []int // groups in which something was seen
	peers   []transport.Peer
	pool    [][]byte
	size    int                  // of the next pool, in packets
	sight   int                  // how many packets are taken in for it
	trains  []transport.Outbound // of packets of the pool that are as long as each other
	next    int                  // of the trains and of the pool
	sent    uint64
	began   time.Time
}

func (a *attacker) begin(s *worker.Spec) error {
	a.Random = rand.New(rand.NewPCG(s.Seed, 19))
	other := sealingKey()
	other.Secret[0] ^= 1
	for _, key := range []pubsub.Key{other, sealingKey()} {
		made, err := hostile.Sealed(key, foreignPackets, s.MTU, time.Now().Add(-time.Hour))
		if err != nil {
			return err
		}
		a.Foreign = append(a.Foreign, made...)
	}
	for g := range a.t.Capabilities().Groups {
		tx, err := a.t.NewSender(g)
		if err != nil {
			return err
		}
		a.senders = append(a.senders, tx)
	}
	return nil
}

// look joins all groups for a moment, takes in what is sent there, and makes the pool of it. Whoever stays takes
// from who sends what another subscriber does.
func (a *attacker) look(ctx context.Context, r *worker.Run) error {
	if err := a.membership(a.t.Join); err != nil {
		return err
	}
	for left := a.sight; left > 0 && !r.Over() && ctx.Err() == nil; {
		if err := a.t.Poll(a.batch); err != nil {
			return err
		}
		for i := range a.batch.Trains {
			left -= a.see(&a.batch.Trains[i])
		}
		if err := a.t.Wait(time.Millisecond); err != nil {
			return err
		}
	}
	if err := a.membership(a.t.Leave); err != nil {
		return err
	}
	if a.began.IsZero() {
		a.began = time.Now()
	}
	if a.Seen() > 0 {
		a.make()
	}
	return nil
}

func (a *attacker) membership(change func(group int) error) error {
	for g := range a.senders {
		if err := change(g); err != nil {
			return err
		}
	}
	return nil
}

// see takes in some of a train, and returns how many packets it had.
func (a *attacker) see(tr *transport.Train) int {
	defer a.t.Release(tr)
	if tr.Count() == 0 || tr.Group < 0 {
		return 0
	}
	a.See(tr.Packet(a.Random.IntN(tr.Count())))
	if !slices.Contains(a.live, tr.Group) {
		a.live = append(a.live, tr.Group)
	}
	if p, err := a.t.Retain(tr.From); err == nil {
		if slices.Contains(a.peers, p) || len(a.peers) == 8 {
			a.t.Forget(p)
		} else {
			a.peers = append(a.peers, p)
		}
	}
	return tr.Count()
}

// make fills the pool, and makes trains of what may go in one.
func (a *attacker) make() {
	c := a.t.Capabilities()
	a.pool = a.pool[:0]
	for range a.size {
		if p, _ := a.Packet(); len(p) <= c.MaxPacket {
			a.pool = append(a.pool, p)
		}
	}
	a.size, a.sight = min(2*a.size, hostilePool), hostileSight
	slices.SortStableFunc(a.pool, func(a, b []byte) int { return len(a) - len(b) })
	a.trains = a.trains[:0]
	for rest := a.pool; len(rest) > 0; {
		n, size := 1, len(rest[0])
		for n < len(rest) && len(rest[n]) == size && n < c.MaxTrain && (n+1)*size <= c.MaxTrainBytes {
			n++
		}
		a.trains = append(a.trains, transport.Outbound{
			Data: bytes.Join(rest[:n], nil), Stride: size, Count: n, Lens: slices.Repeat([]uint16{uint16(size)}, n),
		})
		rest = rest[n:]
	}
	a.Random.Shuffle(len(a.trains), func(i, j int) { a.trains[i], a.trains[j] = a.trains[j], a.trains[i] })
}

// send sends a train: three of four to where messages go, one to some other group or, packet by packet, to a sender.
func (a *attacker) send() error {
	a.next++
	out := &a.trains[a.next%len(a.trains)]
	group := a.live[a.Random.IntN(len(a.live))]
	switch a.Random.IntN(8) {
	case 0:
		group = a.Random.IntN(len(a.senders))
	case 1:
		if len(a.peers) == 0 {
			break
		}
		to := a.peers[a.Random.IntN(len(a.peers))]
		for i := range out.Count {
			if a.t.Reply(to, out.Data[i*out.Stride:(i+1)*out.Stride]) == nil {
				a.sent++
			}
		}
		return nil
	}
	n, err := a.senders[group].Send(out)
	a.sent += uint64(n)
	if err != nil && !errors.Is(err, transport.ErrBusy) {
		return fmt.Errorf("the attacker: %w", err)
	}
	return nil
}

// end closes the transport, and polls until it has ended.
func (a *attacker) end() {
	for _, tx := range a.senders {
		tx.Close()
	}
	a.t.Close()
	for a.t.Poll(a.batch) == nil {
		for i := range a.batch.Trains {
			a.t.Release(&a.batch.Trains[i])
		}
		a.t.Wait(time.Millisecond)
	}
}
