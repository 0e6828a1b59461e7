package signed

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

var update = flag.Bool("update", false, "write docs/vectors/signed.json anew")

const vectorsFile = "../../docs/vectors/signed.json"

type vectors struct {
	About []string      `json:"about"`
	Keys  []vectorKey   `json:"keys"`
	Good  []vectorTrain `json:"good"`
	Bad   []vectorBad   `json:"bad"`
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
	Signed string `json:"signed"`
	Fails  string `json:"fails"` // the check
}

var verdictNames = map[Verdict]string{Unsigned: "unsigned", Malformed: "malformed", Untrusted: "key", Stale: "time", Forged: "forged"}

// makeVectors makes them anew.
func makeVectors(t *testing.T) *vectors {
	v := &vectors{About: []string{
		"Signed packets: docs/protocol.md §29. Bytes are in hexadecimal, as they are on the wire.",
		"good: signing packets as one train with these values gives signed, byte for byte; a receiver that trusts the keys that are trusted takes each by itself, at that time.",
		"bad: a receiver that knows no stream yet, and whose clock is now, refuses signed by the check that fails: unsigned, malformed, key, time, forged.",
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
		v.Bad = append(v.Bad, vectorBad{name, now, hex.EncodeToString(b), verdictNames[fails]})
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
	bad("of a publisher whose key is not trusted", now, r.send(t, content(PublisherID(testKey(2), 7), 5, 10))[0], Untrusted)
	s, err := NewSigner(testKey(2), new(counted), r.Now)
	if err != nil {
		t.Fatal(err)
	}
	r.tx = r.f.sender(t, s)
	bad("signed with the key of another", now, r.send(t, content(r.id, 5, 10))[0], Forged)
	return v
}

// docs/vectors/signed.json says what is signed how, and what is refused why. docs/protocol.md §21.1, §29.2, §29.3, §29.4.
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
		t.Error("docs/vectors/signed.json is not what is signed: if that is meant, go test ./transport/signed -run TestVectors -update")
	}
	var v vectors
	if err := json.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	check := func(now uint32, signed string) Verdict {
		b, err := hex.DecodeString(signed)
		if err != nil {
			t.Fatal(err)
		}
		x := NewVerifier(Static{testTrust(t, 1)})
		x.Begin(time.Unix(int64(now), 0))
		_, verdict := x.Check(b, 0)
		return verdict
	}
	for _, tr := range v.Good {
		for i, b := range tr.Signed {
			if got := check(tr.Time, b); got != Taken {
				t.Errorf("%s, packet %d: verdict %d", tr.Name, i, got)
			}
		}
	}
	for _, b := range v.Bad {
		if got := verdictNames[check(b.Now, b.Signed)]; got != b.Fails {
			t.Errorf("%s: fails by %q, want %q", b.Name, got, b.Fails)
		}
	}
}
