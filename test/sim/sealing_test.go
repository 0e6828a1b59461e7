package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

// keys seals the packets of a run by package transport/sealed. Clocks differ by some minutes, and
// are set at each restart.
type keys struct {
	seed      uint64
	rng       *rand.ChaCha8
	random    func() io.Reader // source of the nonces of a node that begins
	ours      *sealed.Keyset
	secret    [32]byte // secret of ours
	nodes     map[int]*keyNode
	strangers []*keyNode // in group 1 with our keys, and in group 0 with others
	proofs    *proofs    // nil: packets are not signed
	nonces    *nonces
	clones    *clones
	report    func(error)
}

func newKeys(seed uint64, report func(error)) *keys {
	k := &keys{seed: seed, rng: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}), nodes: make(map[int]*keyNode), nonces: newNonces(), clones: newClones(seed), report: report}
	k.random = func() io.Reader { return k.rng }
	k.ours = k.set(1, &k.secret)
	k.strangers = []*keyNode{k.open(-1, 1, k.ours), k.open(-1, 0, k.set(2, nil)), k.open(-1, 0, k.set(1, nil))}
	return k
}

// set returns a keyset with one key of that id. It stores the secret in secret.
func (k *keys) set(id sealed.KeyID, secret *[32]byte) *sealed.Keyset {
	key := sealed.Key{ID: id}
	k.rng.Read(key.Secret[:])
	if secret != nil {
		*secret = key.Secret
	}
	set, err := sealed.NewKeyset([]sealed.Key{key})
	if err != nil {
		k.report(err)
	}
	return set
}

// keyNode is a sealed transport on top of a keyWire, which keeps the packets sent.
type keyNode struct {
	wire  *keyWire
	t     transport.Transport
	tx    transport.Sender
	batch *transport.Batch

	history *history // nil: a stranger or a copy
}

func (k *keys) open(node, group int, set *sealed.Keyset) *keyNode {
	return k.openWith(node, group, set, k.random())
}

func (k *keys) openWith(node, group int, set *sealed.Keyset, random io.Reader) *keyNode {
	n := &keyNode{wire: &keyWire{off: clockOff(node, k.nonces.lives[node]), sealed: func(p []byte) { k.nonces.add(set, p, k.report) }}, batch: transport.NewBatch(1)}
	var err error
	if n.t, err = sealed.New(n.wire, sealed.Config{Keys: sealed.Static{Keyset: set}, Random: random, Now: n.wire.time, Proven: k.proofs != nil}); err == nil {
		n.tx, err = n.t.NewSender(group)
	}
	if err != nil {
		k.report(err)
	}
	return n
}

// send returns the sealed packets for packets to the group.
func (n *keyNode) send(now time.Duration, packets ...[]byte) [][]byte {
	n.wire.now, n.wire.sent = now, nil
	for _, b := range packets {
		n.tx.Send(&transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}})
	}
	return n.wire.sent
}

// seal sends packets to the group, or one to a single bus.
func (n *keyNode) seal(now time.Duration, unicast bool, packets [][]byte, report func(error)) [][]byte {
	if n.history != nil {
		n.history.add(now, unicast, packets)
	}
	if unicast {
		return n.reply(now, packets[0], report)
	}
	return n.send(now, packets...)
}

// reply returns the sealed packet for a packet to a single bus.
func (n *keyNode) reply(now time.Duration, b []byte, report func(error)) [][]byte {
	n.wire.now, n.wire.sent = now, nil
	if err := n.t.Reply(1, b); err != nil {
		report(err)
	}
	return n.wire.sent
}

func (k *keys) ID(publisher int, drawn events.ID) events.ID {
	if k.proofs != nil {
		drawn = k.proofs.id(publisher, drawn)
	}
	return drawn
}

// clockOff returns how far the clock of a node is ahead in one of its lives: 0 to 2 minutes. Two
// successive lives of a node differ, and more than half are earlier.
func clockOff(node, life int) time.Duration { return time.Duration((node+3*life)%5) * time.Minute / 2 }

func (k *keys) Begin(_ time.Duration, node int) {
	k.nonces.begin(node)
	h := &history{random: k.random()}
	k.nodes[node] = k.openWith(node, 0, k.ours, h)
	k.nodes[node].history = h
	delete(k.clones.byNode, node)
	if k.proofs != nil {
		k.proofs.begin(node, k.nodes[node].wire)
	}
}

func (k *keys) Seal(now time.Duration, node int, unicast bool, packets [][]byte) [][]byte {
	n := k.nodes[node]
	switch {
	case unicast && k.proofs != nil:
		k.proofs.captureUnicast(packets[0])
	case k.proofs != nil:
		n.wire.now = now
		packets = k.proofs.sign(node, packets)
	}
	defer k.clones.step(k, now, node, unicast, packets)
	return k.capture(unicast, n.seal(now, unicast, packets, k.report))
}

// capture records what an insider sees of sealed packets, and returns them.
func (k *keys) capture(unicast bool, packets [][]byte) [][]byte {
	if x := k.proofs; x != nil && len(packets) > 0 {
		x.sealed[unicast] = slices.Clone(packets[0])
	}
	return packets
}

func (k *keys) Open(now time.Duration, node int, unicast bool, leg int, b []byte) []byte {
	n := k.nodes[node]
	n.wire.now = now
	tr := transport.Train{Data: slices.Clone(b), SegmentSize: len(b), Leg: uint8(leg)}
	if unicast {
		tr.Group = transport.Unicast
	}
	n.wire.received = []transport.Train{tr}
	if err := n.t.Poll(n.batch); err != nil {
		k.report(err)
	}
	if len(n.batch.Trains) == 0 {
		return nil
	}
	got := &n.batch.Trains[0]
	defer n.t.Release(got)
	if k.proofs != nil && !unicast {
		return k.proofs.check(node, n, got)
	}
	return got.Packet(0)
}

func (k *keys) Stranger(now time.Duration, draw uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte("Ff\x01\x01"), draw)
	if k.proofs != nil {
		return k.insider(now, draw)
	}
	return k.strangers[draw%uint64(len(k.strangers))].send(now, append(b, make([]byte, 100)...))[0]
}

// keyWire is a transport that delivers the packets in received, and keeps those sent.
type keyWire struct {
	transport.Transport // nil: no other method is called
	received            []transport.Train
	sent                [][]byte
	sealed              func(packet []byte) // called with each packet sent; nil if they are not sealed
	now, off            time.Duration
}

func (w *keyWire) time() time.Time { return time.Unix(1_800_000_000, 0).Add(w.now + w.off) }

func (w *keyWire) Capabilities() transport.Capabilities {
	return transport.Capabilities{Groups: 2, MaxPacket: 4096, PacketSize: 4096, MaxTrain: 1, MaxTrainBytes: 4096, Batch: 1, LendMax: 1}
}

func (w *keyWire) Poll(b *transport.Batch) error {
	b.Trains, w.received = append(b.Trains[:0], w.received...), nil
	return nil
}

func (w *keyWire) Release(*transport.Train)                {}
func (w *keyWire) Alloc(n int) ([]byte, error)             { return make([]byte, n), nil }
func (w *keyWire) NewSender(int) (transport.Sender, error) { return &keySender{w: w}, nil }
func (w *keyWire) Free([]byte)                             {}
func (w *keyWire) SourceAddress(transport.Source) string   { return "" }
func (w *keyWire) PeerAddress(transport.Peer) string       { return "" }
func (w *keyWire) Reply(_ transport.Peer, p []byte) error  { return w.keep(p) }
func (w *keyWire) Stats() transport.Stats                  { return transport.Stats{} }

func (w *keyWire) keep(p []byte) error {
	if w.sealed != nil {
		w.sealed(p)
	}
	w.sent = append(w.sent, slices.Clone(p))
	return nil
}

type keySender struct {
	w *keyWire
	n uint64
}

func (s *keySender) Send(out *transport.Outbound) (int, error) {
	s.n++
	return 1, s.w.keep(out.Data[:out.Lens[0]])
}
func (s *keySender) Completed() uint64 { return s.n }
func (s *keySender) Close() error      { return nil }

// drawSealed is Draw with keys, and with an adversary that sees everything and sends anything until
// the end: the run must complete under attack.
func drawSealed(seed uint64, report func(error)) Options {
	o := Draw(seed)
	o.Attack = Attack{
		Every:   max(o.Faults/400, 20*time.Microsecond),
		Garbage: true, Truncate: true, Damage: true, Replay: true, Forge: true, Splice: true, Stranger: true,
		Lasts: true,
	}
	o.Sealing = newKeys(seed, report)
	return o
}

// An adversary sees every packet, to the group and by unicast, of every kind, epoch and publisher, and sends
// anything to all nodes: garbage, truncated, changed and spliced packets, replays at once and later, replays
// from unicast to the group and vice versa, packets of another group with the same keys, of another key, and
// of the same id with another secret. It can do no more than a faulty network: all messages are delivered
// exactly and in time, with all faults of the network. docs/protocol §27.1, §27.6.
func TestAdversaryWithoutKeys(t *testing.T) {
	t.Parallel()
	var used nonceCount
	all := attacked(t, 400, func(seed uint64, report func(error)) Options {
		o := drawSealed(seed, report)
		o.Sealing.(*keys).nonces.total = &used
		return o
	})
	if all.Attacks == 0 || all.Refused < all.Attacks || all.Relayed == 0 || all.Messages == 0 {
		t.Errorf("the adversary was not effective: %d packets, %d refused, %d replays accepted, %d messages", all.Attacks, all.Refused, all.Relayed, all.Messages)
	}
	// All accepted packets were made by nodes of the run.
	if x := all.Receiver; x.Malformed+x.Damaged > 0 {
		t.Errorf("invalid packets reached the core: %+v", x)
	}
	over := fmt.Sprintf("%d nonces over %d restarts, and %d copies of nodes, which sealed %d packets", used.nonces.Load(), used.restarts.Load(), used.clones.Load(), used.cloned.Load())
	if used.nonces.Load() == 0 || (used.restarts.Load() == 0 || used.cloned.Load() == 0) && *seedFlag == 0 {
		t.Errorf("%s: too few to detect reuse", over)
	}
	t.Logf("%s, none reused with one key", over)
	t.Logf("%d packets of the adversary; %d refused, %d replays of nodes' packets accepted: %v", all.Attacks, all.Refused, all.Relayed, all)
}

// Seeds of the adversary that have found a fault of the core or of the simulator. 6001947: a
// subscriber still joins with state when the publisher ends. 25902: a receiver's deadline is in the
// past while the packet that waits for names is missing again.
func TestAdversaryRegressionSeeds(t *testing.T) {
	for _, seed := range []uint64{310303, 5001386, 6001947, 25902} {
		if _, err := Run(drawSealed(seed, func(err error) { t.Error(err) })); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// attacked runs n seeds, or as many as a flag sets, and returns the total report.
func attacked(t *testing.T, n int, draw func(seed uint64, report func(error)) Options) *Report {
	if *runsFlag > 0 {
		n = *runsFlag
	} else if testing.Short() {
		n /= 8
	}
	first := *firstFlag
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	var all Report
	var mu sync.Mutex
	limit := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for seed := first; seed < first+uint64(n); seed++ {
		limit <- struct{}{}
		var fault error
		o := draw(seed, func(err error) { fault = errors.Join(fault, err) })
		if *traceFlag {
			o.Trace = os.Stdout
		}
		wg.Go(func() {
			defer func() { <-limit }()
			r, err := Run(o)
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, fault); err != nil {
				t.Errorf("go test ./test/sim -run %s -sim.seed=%d\n%v", t.Name(), seed, err)
			}
			all.Add(r)
		})
	}
	wg.Wait()
	return &all
}
