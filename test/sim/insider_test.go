package sim

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// proofs is how publishers sign and subscribers verify, by package transport/signed, and what an insider
// has seen of it, who has the group's key and a signing key that is trusted for other topics.
type proofs struct {
	k        *keys
	keys     map[int]ed25519.PrivateKey // of publishers
	trust    *signed.Trust
	nodes    map[int]*proofNode
	answers  map[int]*signed.Signer // of subscribers, for what they reply
	takes    *signed.ReplyVerifier
	judged   stats.Sign // replies
	his      ed25519.PrivateKey
	insider  *keyNode        // he seals with the group's key
	signs    *proofNode      // and signs with his own
	seen     heard           // what publishers have signed
	replies  heard           // what subscribers have sent
	answered heard           // replies to requests of it
	asked    []wire.Reply    // requests of late, with who may answer left out
	asking   []wire.Header   // of their packets
	sealed   map[bool][]byte // the last packet to the group, and by unicast (true), as it was sealed
	refused  stats.Sign
	verified uint64
	ahead    map[[12]byte]uint32 // the counter that he has sent last in the name of a salt
	forged   int                 // packets that he has sealed in the names of others
}

// heard is some of what went by.
type heard struct {
	some [][]byte
	next int
}

func (h *heard) note(b []byte) {
	if len(h.some) < 200 {
		h.some = append(h.some, slices.Clone(b))
		return
	}
	h.some[h.next] = append(h.some[h.next][:0], b...)
	h.next = (h.next + 1) % len(h.some)
}

// any is one of them, or nil.
func (h *heard) any(r *rand.Rand) []byte {
	if len(h.some) == 0 {
		return nil
	}
	return slices.Clone(h.some[r.IntN(len(h.some))])
}

// proofNode is one that signs, in memory of its own, or verifies.
type proofNode struct {
	wire *keyWire
	tx   transport.Sender
	v    *signed.Verifier
}

// prove has the publishers of a run sign, and its subscribers trust them for their topics, and an
// insider for others.
func (k *keys) prove(o *Options) {
	x := &proofs{k: k, sealed: make(map[bool][]byte), ahead: make(map[[12]byte]uint32), keys: make(map[int]ed25519.PrivateKey), answers: make(map[int]*signed.Signer), nodes: make(map[int]*proofNode)}
	var grants []signed.Grant
	grant := func(topics string) ed25519.PrivateKey {
		public, key, err := ed25519.GenerateKey(k.rng)
		if err != nil {
			k.tell(err)
		}
		grants = append(grants, signed.Grant{Topics: topics, Key: public})
		return key
	}
	for i, p := range o.Publishers {
		if p.As == 0 {
			x.keys[i] = grant("sim.>")
		} else {
			x.keys[i] = x.keys[p.As-1]
		}
	}
	x.his = grant("his.>")
	var err error
	for i := range o.Subscribers {
		if x.answers[len(o.Publishers)+i], err = signed.NewSigner(grant("sim.>"), k.rng, nil); err != nil {
			k.tell(err)
		}
	}
	if x.trust, err = signed.NewTrust(grants...); err != nil {
		k.tell(err)
	}
	k.proofs, o.Trust = x, x.trust
	x.takes = signed.NewReplyVerifier(signed.Static{Always: x.trust}, func() time.Time { return x.insider.wire.time() })
	x.insider = k.open(-1, 0, k.ours)
	x.signs = x.signer(x.his, x.insider.wire)
}

func (x *proofs) id(publisher int, drawn uint64) uint64 {
	return signed.PublisherID(x.keys[publisher], drawn)
}

// signer is a node that signs with a key, at the time of clock.
func (x *proofs) signer(key ed25519.PrivateKey, clock *keyWire) *proofNode {
	n := &proofNode{wire: &keyWire{}}
	s, err := signed.NewSigner(key, x.k.rng, clock.time)
	if err == nil {
		n.tx, err = s.NewSender(n.wire, 0)
	}
	if err != nil {
		x.k.tell(err)
	}
	return n
}

// begin opens a node anew.
func (x *proofs) begin(node int, clock *keyWire) {
	if key := x.keys[node]; key != nil {
		x.nodes[node] = x.signer(key, clock)
	} else {
		x.nodes[node] = &proofNode{v: signed.NewVerifier(signed.Static{Always: x.trust})}
	}
}

// sign is what a publisher makes of packets that go together.
func (x *proofs) sign(node int, packets [][]byte) [][]byte {
	out := x.nodes[node].sign(packets)
	if len(out) != len(packets) {
		x.k.tell(fmt.Errorf("%d of %d packets are signed", len(out), len(packets)))
	}
	for i, b := range out {
		x.seen.note(b)
		x.requested(packets[i])
	}
	return out
}

func (n *proofNode) sign(packets [][]byte) [][]byte {
	train := transport.Outbound{Count: len(packets)}
	for _, b := range packets {
		train.Stride = max(train.Stride, len(b))
	}
	train.Data = make([]byte, train.Stride*len(packets))
	for i, b := range packets {
		copy(train.Data[i*train.Stride:], b)
		train.Lens = append(train.Lens, uint16(len(b)))
	}
	n.wire.sent = nil
	n.tx.Send(&train)
	return n.wire.sent
}

// check is the packet inside of one that a subscriber has got, and nil where it does not verify.
func (x *proofs) check(node int, n *keyNode, tr *transport.Train) []byte {
	v, b := x.nodes[node].v, tr.Packet(0)
	v.Begin(n.wire.time(), 0)
	key, verdict := v.Check(b, tr.Leg)
	if verdict != signed.Taken {
		verdict.Count(&x.refused, 1)
		return nil
	}
	n.t.(transport.Prover).Proven(tr, 0, uint32(key))
	x.verified++
	return wire.Content(b)
}

func (k *keys) Prove(node int, publisher, epoch, topic, number, receiver uint64, data []byte) []byte {
	to := signed.ReplyTo{Publisher: publisher, Epoch: epoch, Topic: topic, Number: number, Receiver: receiver}
	return k.proofs.answers[node].Reply(&to, data)
}

func (k *keys) Proves(node int, publisher, epoch uint64, x *reliable.CompleteReply) bool {
	to := signed.ReplyTo{Publisher: publisher, Epoch: epoch, Topic: x.Topic.ID, Number: x.Number, Receiver: x.Receiver}
	_, v := k.proofs.takes.Check(x.Topic.Name, &to, x.Data, x.Proof, x.First)
	v.Count(&k.proofs.judged, 1)
	return v == signed.Taken
}

// insider is a packet that he has made of what he has seen.
func (k *keys) insider(now time.Duration, draw uint64) []byte {
	x, r := k.proofs, rand.New(rand.NewPCG(draw, 1))
	x.insider.wire.now = now
	if r.IntN(4) == 0 {
		if b := x.lie(r); b != nil {
			return x.sealedAs(r, true, x.insider.reply(now, b, k.tell)[0], b)
		}
	}
	if b := x.packet(r); b != nil {
		return x.sealedAs(r, false, x.insider.send(now, b)[0], b)
	}
	return nil
}

// sealedAs seals what he sends in the name of another, most often: of the one who has sent last, to a group with counters that run ahead, by unicast with lower ones, or of one that he
// makes up. own is how he seals it himself.
func (x *proofs) sealedAs(r *rand.Rand, unicast bool, own, b []byte) []byte {
	last := x.sealed[unicast]
	if r.IntN(4) == 0 || last == nil {
		return own
	}
	head, index := slices.Clone(last[:40]), uint32(0)
	if unicast {
		index = sealed.Unicast
	}
	switch {
	case unicast: // with higher ones he silences it for minutes (docs/security.md)
		binary.LittleEndian.PutUint32(head[4:], r.Uint32N(1+binary.LittleEndian.Uint32(head[4:])))
	case r.IntN(4) > 0: // a little ahead of what he has sent before, so that it would be believed
		ahead := x.ahead[[12]byte(head[16:])]
		ahead = max(ahead, binary.LittleEndian.Uint32(head[4:])) + 511
		x.ahead[[12]byte(head[16:])] = ahead
		binary.LittleEndian.PutUint32(head[4:], ahead)
	default: // he makes up a sender
		for i := range 12 {
			head[16+i] = byte(r.Uint32())
		}
		copy(head[28:], x.cipher("fanfare sealed 1 mark", nil, binary.LittleEndian.AppendUint32(slices.Clone(head[16:28]), index)))
	}
	binary.LittleEndian.PutUint64(head[32:], r.Uint64())
	g, err := cipher.NewGCM(x.block("fanfare sealed 1 packets", binary.LittleEndian.AppendUint32(slices.Clone(head[16:28]), index)))
	if err != nil {
		x.k.tell(err)
	}
	x.forged++
	return g.Seal(head, append(slices.Clone(head[32:40]), head[4:8]...), b, head)
}

// block is the cipher with a key that is derived from the group's (docs/protocol §27.4).
func (x *proofs) block(info string, salt []byte) cipher.Block {
	secret, err := hkdf.Key(sha256.New, x.k.secret[:], salt, info, 32)
	if err != nil {
		x.k.tell(err)
	}
	b, err := aes.NewCipher(secret)
	if err != nil {
		x.k.tell(err)
	}
	return b
}

// cipher is the first bytes of a block, encrypted.
func (x *proofs) cipher(info string, salt, block []byte) []byte {
	out := make([]byte, aes.BlockSize)
	x.block(info, salt).Encrypt(out, block)
	return out[:4]
}

// lie is a packet to publishers. It asks for anything again, or is a reply that he makes up of others.
func (x *proofs) lie(r *rand.Rand) []byte {
	if b := x.answered.any(r); b != nil && r.IntN(2) == 0 {
		return x.reply(b, r)
	}
	b := x.replies.any(r)
	if len(b) < 48 || wire.Type(b[3]) != wire.TypeNAK {
		return b
	}
	binary.LittleEndian.PutUint64(b[40:], r.Uint64N(100))
	return resum(b)
}

// requested takes in which requests are in a packet.
func (x *proofs) requested(b []byte) {
	h, err := wire.ParseHeader(b)
	if err != nil || h.Type != wire.TypeData {
		return
	}
	d, err := wire.ParseData(b)
	if err != nil || d.Codec != wire.CodecNone {
		return
	}
	for run, rest, ok := wire.NextRun(d.Runs); ok; run, rest, ok = wire.NextRun(rest) {
		if run.Flags&wire.RunFlagRequest != 0 {
			x.asked = append([]wire.Reply{{Topic: run.Topic, Number: run.Number}}, x.asked[:min(len(x.asked), 3)]...)
			x.asking = append([]wire.Header{h}, x.asking[:min(len(x.asking), 3)]...)
		}
	}
}

// lies takes in what a subscriber sends.
func (x *proofs) lies(b []byte) {
	if wire.Type(b[3]) == wire.TypeReply {
		x.answered.some = x.answered.some[:min(len(x.answered.some), 5)] // of late: their requests are open
		x.answered.some = append([][]byte{slices.Clone(b)}, x.answered.some...)
		return
	}
	x.replies.note(b)
}

// reply changes a reply: what it says, which request it answers, in whose name, and whether it has a proof.
func (x *proofs) reply(b []byte, r *rand.Rand) []byte {
	w, err := wire.ParseReply(b)
	h, herr := wire.ParseHeader(b)
	if err != nil || herr != nil {
		return b
	}
	w.Bytes = slices.Clone(w.Bytes)
	if n := len(x.asked); n > 0 && r.IntN(4) > 0 { // to a request that may have no reply yet
		i := r.IntN(n)
		w.Topic, w.Number, h.Publisher, h.Epoch = x.asked[i].Topic, x.asked[i].Number, x.asking[i].Publisher, x.asking[i].Epoch
		if h.Flags &= wire.FlagChecksum | wire.FlagSigned; w.Offset > 0 {
			w.Total, w.Offset = len(w.Bytes), 0
		}
	}
	switch r.IntN(6) {
	case 0: // as it is, again
		return b
	case 1:
		if len(w.Bytes) > 0 {
			w.Bytes[r.IntN(len(w.Bytes))] ^= 1 << r.IntN(8)
		}
	case 2:
		w.Number += r.Uint64N(3)
	case 3:
		w.Receiver = r.Uint64()
	case 4:
		h.Flags &^= wire.FlagSigned
	case 5: // whole, and signed with his key
		s, err := signed.NewSigner(x.his, x.k.rng, nil)
		if err != nil {
			x.k.tell(err)
		}
		w.Bytes = s.Reply(&signed.ReplyTo{Publisher: h.Publisher, Epoch: h.Epoch, Topic: w.Topic, Number: w.Number, Receiver: w.Receiver}, []byte("forged"))
		w.Total, w.Offset, h.Flags = len(w.Bytes), 0, h.Flags|wire.FlagSigned
	}
	return resum(wire.AppendReply(nil, h, &w))
}

// packet is one to the group.
func (x *proofs) packet(r *rand.Rand) []byte {
	p, q := x.seen.any(r), x.seen.any(r)
	if p == nil {
		return nil
	}
	in := wire.Content(p)
	proof := p[: len(p)-len(in) : len(p)-len(in)]
	switch r.IntN(12) {
	case 0: // as it is, again
	case 1:
		bend(in, r)
	case 2: // not signed
		return in
	case 3:
		return bend(in, r)
	case 4: // signed by him
		return x.signs.sign([][]byte{in})[0]
	case 5: // the proof of one, the content of another
		return append(proof, wire.Content(q)...)
	case 6: // of a train to come
		bend(in, r)
		binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])+r.Uint64N(100))
	case 7: // changed, in a stream of his own
		return x.signs.sign([][]byte{bend(x.own(in, r), r)})[0]
	case 8:
		return p[:1+r.IntN(len(p)-1)]
	case 9:
		return x.signs.sign([][]byte{x.naming(r)})[0]
	default: // in a stream of his own
		return x.signs.sign([][]byte{x.own(in, r)})[0]
	}
	return p
}

// own makes a packet one of his own streams, of which he has some.
func (x *proofs) own(b []byte, r *rand.Rand) []byte {
	binary.LittleEndian.PutUint64(b[16:], signed.PublisherID(x.his, r.Uint64N(8)))
	return resum(b)
}

// naming is a packet of his own that names topics of others, which they may not have named yet, with messages.
func (x *proofs) naming(r *rand.Rand) []byte {
	b := make([]byte, wire.DataHeaderLen)
	wire.PutDataHeader(b, wire.Header{GroupTag: groupTag, Epoch: 5}, 512)
	wire.SetSeq(b, r.Uint64N(3))
	for range 2 {
		name := topicNames[r.IntN(MaxTopics)]
		run := make([]byte, wire.RunHeaderLen+len(name))
		wire.PutTopicRun(run, wire.TopicID(name), name)
		message := make([]byte, wire.RunHeaderLen+wire.MessageHeaderLen+7)
		wire.PutRun(message, wire.TopicID(name), []byte("forged!"))
		b = append(append(b, run...), message...)
	}
	wire.SetChecksum(b)
	return x.own(b, r)
}

// bend changes what a packet says.
func bend(b []byte, r *rand.Rand) []byte {
	switch r.IntN(5) {
	case 0:
		b[3], b[4] = byte(wire.TypeHeartbeat), b[4]|byte(wire.FlagEnd)
	case 1:
		b[3] = byte(1 + r.IntN(int(wire.LastType)))
	case 2: // a sequence, a lead, what a topic comes to
		if len(b) >= 40 {
			binary.LittleEndian.PutUint64(b[32:], binary.LittleEndian.Uint64(b[32:])+r.Uint64N(100))
		}
	case 3:
		b[16+r.IntN(len(b)-16)] ^= 1 << r.IntN(8)
	case 4: // another instance
		binary.LittleEndian.PutUint64(b[24:], r.Uint64())
	}
	return resum(b)
}

// resum makes a packet's checksum right, if it has one.
func resum(b []byte) []byte {
	if wire.Flags(b[4])&wire.FlagChecksum != 0 {
		wire.SetChecksum(b)
	}
	return b
}

// drawInsider is drawSealed with publishers that sign, and with an insider instead of the adversary.
func drawInsider(seed uint64, tell func(error)) Options {
	o := drawSealed(seed, tell)
	o.Sealing.(*keys).prove(&o)
	o.Attack = Attack{Every: o.Attack.Every, Replay: true, Damage: true, Stranger: true}
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		s.Streams = usualStreams // of which he takes no more than half
		s.Memory = max(s.Memory, 2*s.Streams*o.Publishers[0].PacketSize*12)
	}
	return o
}

// An insider has the group's key and a signing key that is trusted for other topics. He sees every packet, and sends
// what he likes: played back, changed, unsigned, with proofs of others, signed by him in the name of others, and in streams of
// his own, which verify. Nothing of his is delivered; what is delivered is exact, and all is delivered in time, with every fault
// that the network has beside. He asks publishers for repairs, too, and replies to their requests before others do:
// each takes what its subscribers have made, and signed. docs/protocol §24.7, §29.6, §29.8.
func TestInsider(t *testing.T) {
	t.Parallel()
	var all []*proofs
	r := attacked(t, 80, func(seed uint64, tell func(error)) Options {
		o := drawInsider(seed, tell)
		all = append(all, o.Sealing.(*keys).proofs)
		return o
	})
	var refused, judged stats.Sign
	var verified uint64
	forged := 0
	for _, x := range all {
		addFields(&refused, &x.refused)
		addFields(&judged, &x.judged)
		verified += x.verified
		forged += x.forged
	}
	if refused.Unsigned == 0 || refused.Forged == 0 || refused.Malformed == 0 || r.RefusedMessages == 0 || r.Messages == 0 || forged == 0 {
		t.Errorf("the insider did little: refused %+v, %d messages of his by their topics", refused, r.RefusedMessages)
	}
	if r.Replies == 0 || !testing.Short() && (r.RefusedReplies == 0 || judged.Forged == 0) { // most of his come behind the genuine ones
		t.Errorf("he has forged no replies: %d came, %+v", r.Replies, judged)
	}
	t.Logf("%d replies taken; refused %+v", r.Replies, judged)
	t.Logf("%d of the insider's packets, %d in the name of another sender; refused %+v, and %d messages by their topics; %d packets verified: %v", r.Attacks, forged, refused, r.RefusedMessages, verified, r)
}
