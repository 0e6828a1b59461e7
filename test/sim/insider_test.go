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
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// proofs lets publishers sign and subscribers verify, by package transport/signed. It also holds what an
// insider has captured: the insider has the group's key, and a signing key that is trusted for other topics.
type proofs struct {
	k               *keys
	keys            map[int]ed25519.PrivateKey // of publishers
	trust           *signed.Trust
	nodes           map[int]*proofNode
	replySigners    map[int]*signed.Signer // of subscribers, for their replies
	insiderKey      ed25519.PrivateKey
	insider         *keyNode        // seals with the group's key
	insiderSigner   *proofNode      // signs with its own key
	capturedSigned  captured        // signed packets of publishers
	capturedUnicast captured        // packets of subscribers
	capturedReplies captured        // replies of subscribers
	openRequests    []wire.Reply    // recent requests, without a receiver
	requestHeaders  []wire.Header   // headers of their packets
	sealed          map[bool][]byte // the last packet to the group, and by unicast (true), as it was sealed
	refused         stats.Sign
	verified        uint64
	ahead           map[[12]byte]uint32 // highest counter that the insider has sent with a salt of another node
	forged          int                 // packets that it has sealed in the name of others
}

// captured is some of the packets on the network.
type captured struct {
	packets [][]byte
	next    int
}

func (h *captured) add(b []byte) {
	if len(h.packets) < 200 {
		h.packets = append(h.packets, slices.Clone(b))
		return
	}
	h.packets[h.next] = append(h.packets[h.next][:0], b...)
	h.next = (h.next + 1) % len(h.packets)
}

// any returns one of them, or nil.
func (h *captured) any(r *rand.Rand) []byte {
	if len(h.packets) == 0 {
		return nil
	}
	return slices.Clone(h.packets[r.IntN(len(h.packets))])
}

// proofNode is a node that signs, with captured output, or verifies.
type proofNode struct {
	wire *keyWire
	tx   transport.Sender
	v    *signed.Verifier
}

// prove makes the publishers of a run sign. Its subscribers trust them for their topics, and an insider for others.
func (k *keys) prove(o *Options) {
	x := &proofs{k: k, sealed: make(map[bool][]byte), ahead: make(map[[12]byte]uint32), keys: make(map[int]ed25519.PrivateKey), replySigners: make(map[int]*signed.Signer), nodes: make(map[int]*proofNode)}
	var grants []signed.Grant
	grant := func(topics string) ed25519.PrivateKey {
		public, key, err := ed25519.GenerateKey(k.rng)
		if err != nil {
			k.report(err)
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
	x.insiderKey = grant("insider.>")
	var err error
	for i := range o.Subscribers {
		if x.replySigners[len(o.Publishers)+i], err = signed.NewSigner(grant("sim.>"), k.rng, nil); err != nil {
			k.report(err)
		}
	}
	if x.trust, err = signed.NewTrust(grants...); err != nil {
		k.report(err)
	}
	k.proofs, o.Trust = x, x.trust
	x.insider = k.open(-1, 0, k.ours)
	x.insiderSigner = x.signer(x.insiderKey, x.insider.wire)
}

func (x *proofs) id(publisher int, drawn events.ID) events.ID {
	return signed.PublisherID(x.keys[publisher], drawn)
}

// signer returns a node that signs with a key, at the time of clock.
func (x *proofs) signer(key ed25519.PrivateKey, clock *keyWire) *proofNode {
	n := &proofNode{wire: &keyWire{}}
	s, err := signed.NewSigner(key, x.k.rng, clock.time)
	if err == nil {
		n.tx, err = s.NewSender(n.wire, 0)
	}
	if err != nil {
		x.k.report(err)
	}
	return n
}

// begin opens a node again.
func (x *proofs) begin(node int, clock *keyWire) {
	if key := x.keys[node]; key != nil {
		x.nodes[node] = x.signer(key, clock)
	} else {
		x.nodes[node] = &proofNode{v: signed.NewVerifier(signed.Static{Always: x.trust})}
	}
}

// sign signs packets that a publisher sends together.
func (x *proofs) sign(node int, packets [][]byte) [][]byte {
	out := x.nodes[node].sign(packets)
	if len(out) != len(packets) {
		x.k.report(fmt.Errorf("%d of %d packets were signed", len(out), len(packets)))
	}
	for i, b := range out {
		x.capturedSigned.add(b)
		x.captureRequests(packets[i])
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

// check returns the packet inside a received one, nil if it does not verify.
func (x *proofs) check(node int, n *keyNode, tr *transport.Train) []byte {
	v, b := x.nodes[node].v, tr.Packet(0)
	v.Begin(n.wire.time(), 0)
	key, verdict := v.Check(b, tr.Leg)
	if verdict != signed.Accepted {
		verdict.Count(&x.refused, 1)
		return nil
	}
	n.t.(transport.Prover).Proven(tr, 0, uint32(key))
	x.verified++
	return wire.Content(b)
}

func (k *keys) Signer(node int) *signed.Signer { return k.proofs.replySigners[node] }

func (k *keys) Trust() signed.Provider { return signed.Static{Always: k.proofs.trust} }

// insider returns a packet made of captured ones.
func (k *keys) insider(now time.Duration, draw uint64) []byte {
	x, r := k.proofs, rand.New(rand.NewPCG(draw, 1))
	x.insider.wire.now = now
	if r.IntN(4) == 0 {
		if b := x.forgeUnicast(r); b != nil {
			return x.sealedAs(r, true, x.insider.reply(now, b, k.report)[0], b)
		}
	}
	if b := x.packet(r); b != nil {
		return x.sealedAs(r, false, x.insider.send(now, b)[0], b)
	}
	return nil
}

// sealedAs seals a packet of the insider, mostly in the name of another node: of the last sender, with counters that
// run ahead to the group, and lower ones by unicast; or of an invented one. own is the packet sealed in the insider's
// name.
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
	case unicast: // a higher one would block the node's packets for minutes (docs/security.md)
		binary.LittleEndian.PutUint32(head[4:], r.Uint32N(1+binary.LittleEndian.Uint32(head[4:])))
	case r.IntN(4) > 0: // a little ahead of the last one sent, so that receivers accept it
		ahead := x.ahead[[12]byte(head[16:])]
		ahead = max(ahead, binary.LittleEndian.Uint32(head[4:])) + 511
		x.ahead[[12]byte(head[16:])] = ahead
		binary.LittleEndian.PutUint32(head[4:], ahead)
	default: // an invented sender
		for i := range 12 {
			head[16+i] = byte(r.Uint32())
		}
		copy(head[28:], x.cipher("fanfare sealed 1 mark", nil, binary.LittleEndian.AppendUint32(slices.Clone(head[16:28]), index)))
	}
	binary.LittleEndian.PutUint64(head[32:], r.Uint64())
	g, err := cipher.NewGCM(x.block("fanfare sealed 1 packets", binary.LittleEndian.AppendUint32(slices.Clone(head[16:28]), index)))
	if err != nil {
		x.k.report(err)
	}
	x.forged++
	return g.Seal(head, append(slices.Clone(head[32:40]), head[4:8]...), b, head)
}

// block returns the cipher with a key derived from the group's (docs/protocol §27.4).
func (x *proofs) block(info string, salt []byte) cipher.Block {
	secret, err := hkdf.Key(sha256.New, x.k.secret[:], salt, info, 32)
	if err != nil {
		x.k.report(err)
	}
	b, err := aes.NewCipher(secret)
	if err != nil {
		x.k.report(err)
	}
	return b
}

// cipher returns the first bytes of an encrypted block.
func (x *proofs) cipher(info string, salt, block []byte) []byte {
	out := make([]byte, aes.BlockSize)
	x.block(info, salt).Encrypt(out, block)
	return out[:4]
}

// forgeUnicast returns a packet to publishers: a NAK for arbitrary packets, or a reply made of captured ones.
func (x *proofs) forgeUnicast(r *rand.Rand) []byte {
	if b := x.capturedReplies.any(r); b != nil && r.IntN(2) == 0 {
		return x.reply(b, r)
	}
	b := x.capturedUnicast.any(r)
	if len(b) < 48 || wire.Type(b[3]) != wire.TypeNAK {
		return b
	}
	binary.LittleEndian.PutUint64(b[40:], r.Uint64N(100))
	return resum(b)
}

// captureRequests records the requests in a packet.
func (x *proofs) captureRequests(b []byte) {
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
			x.openRequests = append([]wire.Reply{{Topic: run.Topic, Number: run.Number}}, x.openRequests[:min(len(x.openRequests), 3)]...)
			x.requestHeaders = append([]wire.Header{h}, x.requestHeaders[:min(len(x.requestHeaders), 3)]...)
		}
	}
}

// captureUnicast records what a subscriber sends.
func (x *proofs) captureUnicast(b []byte) {
	if wire.Type(b[3]) == wire.TypeReply {
		x.capturedReplies.packets = x.capturedReplies.packets[:min(len(x.capturedReplies.packets), 5)] // recent ones: their requests are open
		x.capturedReplies.packets = append([][]byte{slices.Clone(b)}, x.capturedReplies.packets...)
		return
	}
	x.capturedUnicast.add(b)
}

// reply changes a reply: its content, its request, its sender, or whether it has a proof.
func (x *proofs) reply(b []byte, r *rand.Rand) []byte {
	w, err := wire.ParseReply(b)
	h, herr := wire.ParseHeader(b)
	if err != nil || herr != nil {
		return b
	}
	w.Bytes = slices.Clone(w.Bytes)
	if n := len(x.openRequests); n > 0 && r.IntN(4) > 0 { // for a request that may have no reply yet
		i := r.IntN(n)
		w.Topic, w.Number, h.Publisher, h.Epoch = x.openRequests[i].Topic, x.openRequests[i].Number, x.requestHeaders[i].Publisher, x.requestHeaders[i].Epoch
		if h.Flags &= wire.FlagChecksum | wire.FlagSigned; w.Offset > 0 {
			w.Total, w.Offset = len(w.Bytes), 0
		}
	}
	switch r.IntN(6) {
	case 0: // unchanged, a replay
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
	case 5: // complete, and signed with the insider's key
		s, err := signed.NewSigner(x.insiderKey, x.k.rng, nil)
		if err != nil {
			x.k.report(err)
		}
		w.Bytes = s.Reply(&signed.ReplyTo{Instance: h.Instance(), Topic: w.Topic, Number: w.Number, Receiver: w.Receiver}, []byte("forged"))
		w.Total, w.Offset, h.Flags = len(w.Bytes), 0, h.Flags|wire.FlagSigned
	}
	return resum(wire.AppendReply(nil, h, &w))
}

// packet returns a packet to the group.
func (x *proofs) packet(r *rand.Rand) []byte {
	p, q := x.capturedSigned.any(r), x.capturedSigned.any(r)
	if p == nil {
		return nil
	}
	in := wire.Content(p)
	proof := p[: len(p)-len(in) : len(p)-len(in)]
	switch r.IntN(12) {
	case 0: // unchanged, a replay
	case 1:
		corrupt(in, r)
	case 2: // unsigned
		return in
	case 3:
		return corrupt(in, r)
	case 4: // signed by the insider
		return x.insiderSigner.sign([][]byte{in})[0]
	case 5: // proof and content of different packets
		return append(proof, wire.Content(q)...)
	case 6: // of a future train
		corrupt(in, r)
		binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])+r.Uint64N(100))
	case 7: // changed, in a stream of the insider
		return x.insiderSigner.sign([][]byte{corrupt(x.own(in, r), r)})[0]
	case 8:
		return p[:1+r.IntN(len(p)-1)]
	case 9:
		return x.insiderSigner.sign([][]byte{x.naming(r)})[0]
	default: // in a stream of the insider
		return x.insiderSigner.sign([][]byte{x.own(in, r)})[0]
	}
	return p
}

// own moves a packet to one of the insider's streams.
func (x *proofs) own(b []byte, r *rand.Rand) []byte {
	binary.LittleEndian.PutUint64(b[16:], uint64(signed.PublisherID(x.insiderKey, events.ID(r.Uint64N(8)))))
	return resum(b)
}

// naming returns a packet in a stream of the insider that names topics of others, perhaps before their publishers do,
// with messages.
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

// corrupt changes the content of a packet.
func corrupt(b []byte, r *rand.Rand) []byte {
	switch r.IntN(5) {
	case 0:
		b[3], b[4] = byte(wire.TypeHeartbeat), b[4]|byte(wire.FlagEnd)
	case 1:
		b[3] = byte(1 + r.IntN(int(wire.LastType)))
	case 2: // a sequence, a lead, or a topic's total
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

// resum corrects a packet's checksum, if it has one.
func resum(b []byte) []byte {
	if wire.Flags(b[4])&wire.FlagChecksum != 0 {
		wire.SetChecksum(b)
	}
	return b
}

// drawInsider is drawSealed with signing publishers, and with an insider instead of the adversary.
func drawInsider(seed uint64, report func(error)) Options {
	o := drawSealed(seed, report)
	o.Sealing.(*keys).prove(&o)
	o.Attack = Attack{Every: o.Attack.Every, Replay: true, Damage: true, Stranger: true}
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		s.Streams = defaultStreams // the insider can take up half of them
		s.Memory = max(s.Memory, 2*s.Streams*o.Publishers[0].PacketSize*12)
	}
	return o
}

// An insider has the group's key and a signing key that is trusted for other topics. It sees every packet, and sends
// anything: replays, changed and unsigned packets, with proofs of others, signed by itself in the name of others, and
// packets of its own streams, which verify. None of that is delivered; all other messages are delivered exactly and in
// time, with all faults of the network. It also sends NAKs to publishers, and replies to their requests before others
// do: publishers accept only replies that their subscribers have signed. docs/protocol §24.7, §29.6, §29.8.
func TestInsider(t *testing.T) {
	t.Parallel()
	var all []*proofs
	r := attacked(t, 80, func(seed uint64, report func(error)) Options {
		o := drawInsider(seed, report)
		all = append(all, o.Sealing.(*keys).proofs)
		return o
	})
	var refused stats.Sign
	var verified uint64
	forged := 0
	for _, x := range all {
		stats.Add(&refused, &x.refused)
		verified += x.verified
		forged += x.forged
	}
	if refused.Unsigned == 0 || refused.Forged == 0 || refused.Malformed == 0 || r.RefusedMessages == 0 || r.Messages == 0 || forged == 0 {
		t.Errorf("the insider was not effective: refused %+v, %d of its messages refused by topic", refused, r.RefusedMessages)
	}
	if r.Replies == 0 || !testing.Short() && r.Proofs.Forged == 0 { // most of its replies arrive after the genuine ones
		t.Errorf("the insider forged no replies: %d arrived, %+v", r.Replies, r.Proofs)
	}
	t.Logf("%d replies accepted; refused %+v", r.Replies, r.Proofs)
	t.Logf("%d packets of the insider, %d in the name of another sender; refused %+v, and %d messages by topic; %d packets verified: %v", r.Attacks, forged, refused, r.RefusedMessages, verified, r)
}
