package signed

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

var update = flag.Bool("update", false, "write docs/vectors/signed.json")

const vectorsFile = "../../docs/vectors/signed.json"

type vectors struct {
	About []string      `json:"about"`
	Keys  []vectorKey   `json:"keys"`
	Good  []vectorTrain `json:"good"`
	Bad   []vectorBad   `json:"bad"`

	Replies    []vectorReply `json:"replies"`
	BadReplies []vectorReply `json:"bad_replies"`
}

type vectorKey struct {
	Seed   string `json:"seed"`
	Public string `json:"public"`
	ID     uint32 `json:"id"`
	Trust  bool   `json:"trusted"`
}

type vectorTrain struct {
	Name    string   `json:"name"`
	Key     uint32   `json:"key"`
	Time    uint32   `json:"time"`
	Counter uint64   `json:"counter"`
	Salt    string   `json:"salt"`
	Root    string   `json:"root"`
	Packets []string `json:"packets"`
	Signed  []string `json:"signed"`
}

type vectorBad struct {
	Name   string `json:"name"`
	Now    uint32 `json:"now"`
	After  string `json:"after,omitempty"` // a packet that the receiver accepted before
	Signed string `json:"signed"`
	Fails  string `json:"fails"` // the check that fails
}

// vectorReply is a complete reply with its proof.
type vectorReply struct {
	Name      string `json:"name"`
	Key       uint32 `json:"key"`
	Publisher uint64 `json:"publisher"`
	Epoch     uint64 `json:"epoch"`
	Topic     uint64 `json:"topic"`
	Number    uint64 `json:"number"`
	Receiver  uint64 `json:"receiver"`
	Data      string `json:"data"`
	Proof     string `json:"proof"`
	Fails     string `json:"fails,omitempty"`
}

func (x *vectorReply) to() *ReplyTo {
	return &ReplyTo{Instance: events.Instance{Publisher: events.ID(x.Publisher), Epoch: events.ID(x.Epoch)}, Topic: x.Topic, Number: x.Number, Receiver: x.Receiver}
}

var verdictNames = map[Verdict]string{Unsigned: "unsigned", Malformed: "malformed", Untrusted: "key", Stale: "time", Replayed: "replayed", Forged: "forged"}

// makeVectors makes the vectors.
func makeVectors(t *testing.T) *vectors {
	v := &vectors{About: []string{
		"Signed packets: docs/protocol §29. Bytes are in hexadecimal, as they are on the wire.",
		"good: signing packets as one train with these values gives signed, byte for byte; a receiver that trusts the trusted keys accepts each packet by itself at that time.",
		"bad: a receiver that knows no stream yet, at the time now, refuses signed because of the check fails: unsigned, malformed, key, time, replayed, forged. If after is present, it has accepted that packet before.",
		"replies: the proof of a complete reply to that request by that receiver (§24.7). bad_replies: proofs that are refused by a publisher that trusts the trusted keys for all topics.",
	}}
	for _, n := range []byte{1, 2} {
		key := testKey(n)
		v.Keys = append(v.Keys, vectorKey{hex.EncodeToString(key.Seed()), hex.EncodeToString(publicOf(key)), uint32(IDOf(publicOf(key))), n == 1})
	}
	r := newRig(t)
	train := func(name string, n int) [][]byte {
		sent := r.train(t, n)
		x := vectorTrain{Name: name, Key: v.Keys[0].ID}
		for _, b := range sent {
			s, err := wire.ParseSigned(b)
			if err != nil {
				t.Fatal(err)
			}
			root := climb(&s, newHasher().leaf(s.Salt, s.Node, s.Packet))
			x.Time, x.Counter, x.Salt, x.Root = s.Time, s.Counter, hex.EncodeToString(s.Salt), hex.EncodeToString(root[:])
			x.Packets, x.Signed = append(x.Packets, hex.EncodeToString(s.Packet)), append(x.Signed, hex.EncodeToString(b))
		}
		v.Good = append(v.Good, x)
		return sent
	}
	train("one packet", 1)
	train("two packets", 2)
	good := train("five packets", 5)[2]
	train("eight packets", 8)
	now := uint32(r.now.Unix())
	bad := func(name string, now uint32, b []byte, fails Verdict) {
		v.Bad = append(v.Bad, vectorBad{name, now, "", hex.EncodeToString(b), verdictNames[fails]})
	}
	bend := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	head := wire.SignedHead(3)
	bad("the packet alone", now, good[head:], Unsigned)
	bad("another version", now, bend(2), Malformed)
	bad("node 0", now, append([]byte("Fg\x01\x00"), good[4:]...), Malformed)
	bad("cut within the header of the packet", now, good[:head+31], Malformed)
	bad("5 minutes and a second later", now+301, good, Stale)
	bad("5 minutes and a second earlier", now-301, good, Stale)
	for _, at := range []struct {
		name string
		at   int
	}{{"another node", 3}, {"another time", 4}, {"another counter", 8}, {"another salt", 16}, {"another signature", 24}, {"another path", 88}, {"another group", head + atTag}, {"another publisher of the key", head + atPublisher + 1}, {"another epoch", head + atEpoch}, {"another byte", len(good) - 1}} {
		bad(at.name, now, bend(at.at), Forged)
	}
	bad("of a publisher with an untrusted key", now, r.send(t, content(PublisherID(testKey(2), 7), 5, 10))[0], Untrusted)
	v.addTypes(t, r, now)
	other, err := NewSigner(testKey(2), new(counted), r.Now)
	if err != nil {
		t.Fatal(err)
	}
	r.tx = r.f.sender(t, other)
	bad("signed with another publisher's key", now, r.send(t, content(r.id, 5, 10))[0], Forged)
	v.addReplies(t, other)
	return v
}

// addTypes adds packets of every type that is sent to a group, from docs/vectors/packets.json with the rig's publisher,
// and refused variants of each.
func (v *vectors) addTypes(t *testing.T, r *rig, now uint32) {
	text, err := os.ReadFile("../../docs/vectors/packets.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Packets []struct{ Name, Hex string }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[wire.Type]bool{wire.TypeNAK: true, wire.TypeStatus: true, wire.TypeReply: true} // these are sent by unicast
	for _, p := range file.Packets {
		b, err := hex.DecodeString(p.Hex)
		if err != nil || seen[wire.Type(b[3])] {
			continue
		}
		seen[wire.Type(b[3])] = true
		binary.LittleEndian.PutUint64(b[atPublisher:], uint64(r.id))
		if wire.Flags(b[4])&wire.FlagChecksum != 0 {
			wire.SetChecksum(b)
		}
		sent := r.send(t, b)[0]
		s, err := wire.ParseSigned(sent)
		if err != nil {
			t.Fatal(err)
		}
		root := newHasher().leaf(s.Salt, s.Node, s.Packet)
		v.Good = append(v.Good, vectorTrain{p.Name, v.Keys[0].ID, s.Time, s.Counter, hex.EncodeToString(s.Salt), hex.EncodeToString(root[:]), []string{hex.EncodeToString(b)}, []string{hex.EncodeToString(sent)}})
		bad := func(name, after string, b []byte, fails Verdict) {
			v.Bad = append(v.Bad, vectorBad{p.Name + name, now, after, hex.EncodeToString(b), verdictNames[fails]})
		}
		changed := bytes.Clone(sent)
		changed[len(sent)-1-len(b)/4] ^= 0x10
		bad(", a bit of it changed", "", changed, Forged)
		bad(", the last byte of it cut off", "", sent[:len(sent)-1], Forged)
		bad(", with the proof of another packet", "", append(bytes.Clone(r.send(t, content(r.id, 5, 10))[0][:wire.SignedHead(0)]), b...), Forged)
		bad(", replayed", hex.EncodeToString(sent), sent, Replayed)
	}
	for typ := wire.TypeData; typ <= wire.LastType; typ++ {
		if typ.Known() && !seen[typ] {
			t.Errorf("no packet of type %v", typ)
		}
	}
	first := r.train(t, 1)[0]
	for range recentTrains - 1 {
		r.train(t, 1)
	}
	v.Bad = append(v.Bad, vectorBad{"of a train 64 behind the newest", now, hex.EncodeToString(r.train(t, 1)[0]), hex.EncodeToString(first), verdictNames[Replayed]})
}

// addReplies adds replies, and refused variants of them. other signs with an untrusted key.
func (v *vectors) addReplies(t *testing.T, other *Signer) {
	s, err := NewSigner(testKey(1), new(counted), nil)
	if err != nil {
		t.Fatal(err)
	}
	base := vectorReply{Key: v.Keys[0].ID, Publisher: 0x3433323138373635, Epoch: 0x5857565554535251, Topic: 0xa8a7a6a5a4a3a2a1, Number: 77, Receiver: 0xb1b2b3b4b5b637b8}
	made := func(name string, s *Signer, data []byte) vectorReply {
		x := base
		out := s.Reply(x.to(), data)
		x.Name, x.Data, x.Proof = name, hex.EncodeToString(out[:len(data)]), hex.EncodeToString(out[len(data):])
		return x
	}
	good := made("a reply", s, []byte("done: 17 @ 3.25"))
	v.Replies = []vectorReply{made("an empty reply", s, nil), good}
	bad := func(name string, fails Verdict, change func(x *vectorReply)) {
		x := good
		change(&x)
		x.Name, x.Fails = name, verdictNames[fails]
		v.BadReplies = append(v.BadReplies, x)
	}
	bad("without a proof", Unsigned, func(x *vectorReply) { x.Proof = "" })
	bad("a truncated proof", Malformed, func(x *vectorReply) { x.Proof = x.Proof[:len(x.Proof)-2] })
	bad("with an untrusted key", Untrusted, func(x *vectorReply) { *x = made("", other, []byte("done")) })
	bad("signed with another publisher's key", Forged, func(x *vectorReply) {
		*x = made("", other, []byte("done"))
		x.Proof = good.Proof[:8] + x.Proof[8:]
	})
	bad("to another request", Forged, func(x *vectorReply) { x.Number++ })
	bad("on another topic", Forged, func(x *vectorReply) { x.Topic++ })
	bad("to another publisher", Forged, func(x *vectorReply) { x.Publisher++ })
	bad("to another instance of the publisher", Forged, func(x *vectorReply) { x.Epoch++ })
	bad("in the name of another receiver", Forged, func(x *vectorReply) { x.Receiver++ })
	bad("other bytes", Forged, func(x *vectorReply) { x.Data = "00" + x.Data[2:] })
	bad("a byte more", Forged, func(x *vectorReply) { x.Data += "00" })
}

// docs/vectors/signed.json has signed packets, and refused ones with the reason. docs/protocol §21.1, §29.2,
// §29.3, §29.4.
func TestVectors(t *testing.T) {
	made := makeVectors(t)
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(vectorsFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, text) {
		t.Error("docs/vectors/signed.json differs from what is signed now: if that is intended, go test ./transport/signed -run TestVectors -update")
	}
	var v vectors
	if err := json.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	check := func(now uint32, after, signed string) Verdict {
		b, err := hex.DecodeString(signed)
		if err != nil {
			t.Fatal(err)
		}
		x := NewVerifier(Static{testTrust(t, 1)})
		x.Begin(time.Unix(int64(now), 0), 0)
		if first, err := hex.DecodeString(after); err != nil || after != "" {
			if _, verdict := x.Check(first, 0); err != nil || verdict != Accepted {
				t.Fatalf("verdict %d of the earlier packet, error %v, want Accepted", verdict, err)
			}
		}
		_, verdict := x.Check(b, 0)
		return verdict
	}
	for _, tr := range v.Good {
		for i, b := range tr.Signed {
			if got := check(tr.Time, "", b); got != Accepted {
				t.Errorf("%s, packet %d: verdict %d, want Accepted", tr.Name, i, got)
			}
		}
	}
	for _, b := range v.Bad {
		if got := verdictNames[check(b.Now, b.After, b.Signed)]; got != b.Fails {
			t.Errorf("%s: fails by %q, want %q", b.Name, got, b.Fails)
		}
	}
	replies := NewReplyVerifier(Static{testTrust(t, 1)}, nil)
	for _, x := range slices.Concat(v.Replies, v.BadReplies) {
		data, err := hex.DecodeString(x.Data)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := hex.DecodeString(x.Proof)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := replies.Check("any", x.to(), data, proof, true); verdictNames[got] != x.Fails {
			t.Errorf("%s: fails by %q, want %q", x.Name, verdictNames[got], x.Fails)
		}
	}
}
