package sealed

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/vectors/sealed.json")

const vectorsFile = "../../docs/vectors/sealed.json"

type vectors struct {
	About     []string         `json:"about"`
	Keys      []vectorKey      `json:"keys"`
	Good      []vectorPacket   `json:"good"`
	Bad       []vectorBad      `json:"bad"`
	Sequences []vectorSequence `json:"sequences"`
}

// vectorSequence is a sequence of packets that a receiver gets on one leg.
type vectorSequence struct {
	Name  string       `json:"name"`
	Index uint32       `json:"index"`
	Steps []vectorStep `json:"packets"`
}

type vectorStep struct {
	Now    uint32 `json:"now"`
	Sealed string `json:"sealed"`
	Fails  string `json:"fails,omitempty"` // the check that fails; empty: the packet is accepted
}

type vectorKey struct {
	ID     uint32 `json:"id"`
	Secret string `json:"secret"`
}

type vectorPacket struct {
	Name    string `json:"name"`
	Index   uint32 `json:"index"`
	Key     uint32 `json:"key"`
	Time    uint32 `json:"time"`
	Counter uint32 `json:"counter"`
	Salt    string `json:"salt"`
	Train   string `json:"train"`
	Mark    string `json:"mark"`
	Packet  string `json:"packet"`
	Sealed  string `json:"sealed"`
}

type vectorBad struct {
	Name   string `json:"name"`
	Index  uint32 `json:"index"` // index of the group in which the receiver gets the packet
	Now    uint32 `json:"now"`
	After  string `json:"after,omitempty"` // a packet that the receiver accepted before
	Sealed string `json:"sealed"`
	Fails  string `json:"fails"` // the check that fails
}

var verdictNames = map[verdict]string{
	foreign: "magic", unsealed: "open", otherVersion: "version", unknownKey: "key", forged: "forged", stale: "time", replayed: "replayed",
}

// counted reads as bytes 1, 2, 3 …, so that vectors are always the same.
type counted struct{ n byte }

func (c *counted) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

const vectorTime = 1_795_000_000

// vectorContents returns packets of every type, from docs/vectors/packets.json, and a packet of one byte.
func vectorContents(t *testing.T) (names []string, packets [][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../docs/vectors/packets.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Packets []struct {
			Name   string          `json:"name"`
			Type   string          `json:"type"`
			Hex    string          `json:"hex"`
			Fields json.RawMessage `json:"fields"`
		} `json:"packets"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	seen := make(map[byte]bool)
	for _, p := range file.Packets {
		b, err := hex.DecodeString(p.Hex)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 4 && !seen[b[3]] {
			seen[b[3]] = true
			names, packets = append(names, p.Name), append(packets, b)
		}
	}
	if len(packets) < 9 {
		t.Fatalf("%d types of packets, want at least 9", len(packets))
	}
	return append(names, "one byte"), append(packets, []byte{7})
}

func vectorSet(t *testing.T, keys []vectorKey) *Keyset {
	t.Helper()
	var list []Key
	for _, k := range keys {
		b, err := hex.DecodeString(k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Key{ID: KeyID(k.ID), Secret: [32]byte(b)})
	}
	s, err := NewKeyset(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// makeVectors makes the vectors.
func makeVectors(t *testing.T) *vectors {
	v := &vectors{
		About: []string{
			"Sealed packets: docs/protocol §27. Bytes are in hexadecimal, as they are on the wire.",
			"good: sealing packet with these values gives sealed, byte for byte; a receiver in the group of that index (4294967295: by unicast) opens it once.",
			"bad: a receiver that knows no sender yet, at the time now, refuses sealed because of the check fails: magic, open, version, key, forged, time, replayed. If after is present, it has accepted that packet before.",
			"sequences: a receiver that knows no sender gets these packets one after another, each at the time now; its clock is not set meanwhile. Those without fails are accepted.",
		},
		Keys: []vectorKey{{0x1f3a9c07, hex.EncodeToString(bytes.Repeat([]byte{0x11}, 32))}},
	}
	set, random := vectorSet(t, v.Keys), new(counted)
	names, packets := vectorContents(t)
	at := time.Unix(vectorTime, 0)
	sealers := map[uint32]*sealer{}
	for i, p := range packets {
		index := uint32(3)
		if p[len(p)-1] == 7 || len(p) > 3 && (p[3] == 4 || p[3] == 7 || p[3] == 9) {
			index = unicastIndex
		}
		if sealers[index] == nil {
			sealers[index] = newSealer(index, random)
		}
		s := sealers[index]
		if err := s.begin(set, at, 1); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(p)+Overhead)
		s.seal(b, p)
		h := header(b)
		v.Good = append(v.Good, vectorPacket{
			names[i], index, h.key(), h.time(), h.counter(), hex.EncodeToString(b[atSender:atMark]), hex.EncodeToString(b[atTrain:headerLen]),
			hex.EncodeToString(b[atMark:atTrain]), hex.EncodeToString(p), hex.EncodeToString(b),
		})
	}
	good, err := hex.DecodeString(v.Good[len(v.Good)-1].Sealed)
	if err != nil {
		t.Fatal(err)
	}
	bad := func(name string, index, now uint32, change func(p []byte) []byte) {
		p := change(bytes.Clone(good))
		o := vectorOpener(t, set, now)
		verdict := o.open(bytes.Clone(p), index, 0)
		v.Bad = append(v.Bad, vectorBad{name, index, now, "", hex.EncodeToString(p), verdictNames[verdict]})
	}
	flip := func(at int) func([]byte) []byte {
		return func(p []byte) []byte { p[at] ^= 0x80; return p }
	}
	same := func(p []byte) []byte { return p }
	bad("nothing inside", unicastIndex, vectorTime, func(p []byte) []byte { return p[:Overhead] })
	bad("the magic of an open packet", unicastIndex, vectorTime, func(p []byte) []byte { p[1] = openMagic1; return p })
	bad("another magic", unicastIndex, vectorTime, flip(0))
	bad("another version", unicastIndex, vectorTime, flip(2))
	bad("another key id", unicastIndex, vectorTime, flip(atKey))
	bad("in a group, but sealed as a reply", 3, vectorTime, same)
	bad("another salt", unicastIndex, vectorTime, flip(atSender))
	bad("another mark", unicastIndex, vectorTime, flip(atMark))
	bad("five minutes and a second old", unicastIndex, vectorTime+301, same)
	bad("five minutes and a second early", unicastIndex, vectorTime-301, same)
	bad("another counter", unicastIndex, vectorTime, flip(atCounter))
	bad("another time", unicastIndex, vectorTime, func(p []byte) []byte { p[atTime] ^= 1; return p })
	bad("the reserved byte set", unicastIndex, vectorTime, flip(3))
	bad("another train", unicastIndex, vectorTime, flip(atTrain))
	bad("other content", unicastIndex, vectorTime, flip(headerLen))
	bad("another tag", unicastIndex, vectorTime, flip(len(good)-1))
	bad("a byte more", unicastIndex, vectorTime, func(p []byte) []byte { return append(p, 0) })
	for _, x := range v.Good[:len(v.Good)-1] { // packets of every type
		if good, err = hex.DecodeString(x.Sealed); err != nil {
			t.Fatal(err)
		}
		bad(x.Name+", a bit of it changed", x.Index, vectorTime, flip(headerLen+len(good)/3))
		bad(x.Name+", the last byte of it cut off", x.Index, vectorTime, func(p []byte) []byte { return p[:len(p)-1] })
		bad(x.Name+", sent to a group instead of by unicast, or by unicast instead of to a group", x.Index^3^unicastIndex, vectorTime, same)
		bad(x.Name+", to another group", 4, vectorTime, same)
	}
	v.Sequences = makeSequences(t, set, random)
	// Packets received before, or too far behind the newest one.
	s := newSealer(5, random)
	after := func(name string, counter uint64, then func(first []byte) []byte) {
		if err := s.begin(set, at, 1); err != nil {
			t.Fatal(err)
		}
		s.next = counter
		first := make([]byte, 4+Overhead)
		s.seal(first, []byte("data"))
		p := then(first)
		o := vectorOpener(t, set, vectorTime)
		if v := o.open(bytes.Clone(first), 5, 0); v != accepted {
			t.Fatalf("%s: verdict %d of the earlier packet, want accepted", name, v)
		}
		verdict := o.open(bytes.Clone(p), 5, 0)
		v.Bad = append(v.Bad, vectorBad{name, 5, vectorTime, hex.EncodeToString(first), hex.EncodeToString(p), verdictNames[verdict]})
	}
	after("replayed", 0, bytes.Clone)
	after("16384 behind another packet of its sender", 20_000, func([]byte) []byte {
		s.next = 20_000 - 16_384
		p := make([]byte, 4+Overhead)
		s.seal(p, []byte("data"))
		return p
	})
	return v
}

// makeSequences makes the sequences in which earlier packets and their times matter.
func makeSequences(t *testing.T, set *Keyset, random io.Reader) (sequences []vectorSequence) {
	type packet struct {
		counter     uint64
		stated, now uint32 // seconds after vectorTime
	}
	for _, x := range []struct {
		name    string
		packets []packet
	}{
		{"in any order, each once", []packet{{5, 0, 0}, {7, 0, 0}, {6, 0, 0}, {6, 0, 0}, {5, 0, 9}, {0, 0, 9}}},
		{"far apart", []packet{{0, 0, 0}, {600, 0, 0}, {90_000, 0, 0}, {90_000 - windowPackets + 1, 0, 0}, {90_000 - windowPackets, 0, 0}, {601, 0, 0}, {1 << 31, 1, 1}}},
		{"of a known sender, with a time off by five minutes, and by a second more", []packet{{0, 0, 0}, {1, 300, 0}, {2, 301, 0}, {3, 300, 300}, {4, 0, 300}, {5, 0, 301}, {6, 301, 301}}},
		{"of a sender that is restored from a copy of its memory", []packet{
			{50_000, 0, 0}, {50_001, 1, 1}, {40, 1, 2}, {41, 3, 3}, {42, 4, 4}, {43, 4, 4}, {50_001, 1, 4}, {50_002, 1, 4}, {50_002, 4, 4}, {44, 4, 4}, {50_000, 4, 4}, {50_001, 4, 4},
		}},
		{"of a sender with whose name an attacker has used the highest counter and a future time", []packet{{7, 0, 0}, {maxCounter, 60, 0}, {8, 1, 1}, {9, 60, 60}, {10, 61, 61}, {11, 61, 61}, {maxCounter, 60, 61}}},
	} {
		s, o := newSealer(5, random), vectorOpener(t, set, vectorTime)
		w := vectorSequence{Name: x.name, Index: 5}
		for _, c := range x.packets {
			s.next, s.last = c.counter, 0 // with the same salt
			if err := s.begin(set, time.Unix(vectorTime+int64(c.stated), 0), 1); err != nil {
				t.Fatal(err)
			}
			s.next = c.counter
			p := make([]byte, 4+Overhead)
			s.seal(p, []byte("data"))
			o.begin(set, time.Unix(vectorTime+int64(c.now), 0), 0)
			w.Steps = append(w.Steps, vectorStep{vectorTime + c.now, hex.EncodeToString(p), verdictNames[o.open(bytes.Clone(p), 5, 0)]})
		}
		sequences = append(sequences, w)
	}
	return sequences
}

func vectorOpener(t *testing.T, set *Keyset, now uint32) *opener {
	cfg := Config{}.withDefaults()
	o := newOpener(&cfg)
	o.begin(set, time.Unix(int64(now), 0), 0)
	return o
}

// This package seals, opens and refuses exactly as the vectors say. docs/protocol §27.2, §27.4.
func TestVectors(t *testing.T) {
	made, err := json.MarshalIndent(makeVectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	made = append(made, '\n')
	if *update {
		if err := os.WriteFile(vectorsFile, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, made) {
		t.Errorf("%s differs from what is sealed now: go test ./transport/sealed -run TestVectors -update writes it", vectorsFile)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	set := vectorSet(t, v.Keys)
	open := func(sealed string, index, now uint32, after string) (verdict, []byte) {
		o := vectorOpener(t, set, now)
		if first, err := hex.DecodeString(after); err != nil || after != "" && o.open(first, index, 0) != accepted {
			t.Fatalf("the earlier packet is refused: %v", err)
		}
		p, err := hex.DecodeString(sealed)
		if err != nil {
			t.Fatal(err)
		}
		return o.open(p, index, 0), p
	}
	for _, x := range v.Good {
		verdict, p := open(x.Sealed, x.Index, x.Time, "")
		if verdict != accepted || hex.EncodeToString(p[headerLen:len(p)-tagLen]) != x.Packet {
			t.Errorf("%s: verdict %d, packet %x, want accepted and %s", x.Name, verdict, p, x.Packet)
		}
		i, ok := Parse(p)
		if !ok || i.Key != x.Key || i.Counter != x.Counter || i.Time != x.Time || hex.EncodeToString(i.Salt[:]) != x.Salt || i.Bytes != len(x.Packet)/2 {
			t.Errorf("%s: Parse: %+v, want the key, counter, time, salt and size of the vector", x.Name, i)
		}
	}
	for _, x := range v.Sequences {
		o := vectorOpener(t, set, x.Steps[0].Now)
		for i, step := range x.Steps {
			p, err := hex.DecodeString(step.Sealed)
			if err != nil {
				t.Fatal(err)
			}
			o.begin(set, time.Unix(int64(step.Now), 0), 0)
			if got := verdictNames[o.open(p, x.Index, 0)]; got != step.Fails {
				t.Errorf("%s, packet %d: fails by %q, want %q", x.Name, i, got, step.Fails)
			}
		}
	}
	for _, x := range v.Bad {
		if verdict, _ := open(x.Sealed, x.Index, x.Now, x.After); verdictNames[verdict] != x.Fails || x.Fails == "" {
			t.Errorf("%s: fails by %q, want %q", x.Name, verdictNames[verdict], x.Fails)
		}
	}
}
