package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// one returns the only value of a field, "" if the packet lacks it.
func (m flat) one(t *testing.T, field string) string {
	t.Helper()
	if len(m[field]) > 1 {
		t.Errorf("field %s has values %q, want at most one", field, m[field])
	}
	return strings.Join(m[field], " ")
}

// number returns the value of a numeric field.
func (m flat) number(t *testing.T, field string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(m.one(t, field), 0, 64)
	if err != nil {
		t.Errorf("field %s is no number: %v", field, err)
	}
	return n
}

// farFrom fails unless the time in a field differs from now, the receiver's time, by more than five minutes.
func (m flat) farFrom(t *testing.T, field string, now uint32) {
	t.Helper()
	at, err := time.Parse("Jan _2, 2006 15:04:05.000000000 UTC", m.one(t, field))
	if err != nil {
		t.Fatalf("field %s is no time: %v", field, err)
	}
	if d := at.Sub(time.Unix(int64(now), 0)).Abs(); d <= 5*time.Minute {
		t.Errorf("%s differs from now by only %v", field, d)
	}
}

// unshown fails if the dissector shows any field of a packet.
func (m flat) unshown(t *testing.T) {
	t.Helper()
	for field := range m {
		if strings.HasPrefix(field, "fanfare.") {
			t.Errorf("%s is shown for a datagram that is no packet", field)
		}
	}
}

// frames collects the frames of a capture: each packet, preceded by another one if given. at is the index of each
// packet.
type frames struct {
	all [][]byte
	at  []int
}

func (f *frames) add(t *testing.T, before, packet string) {
	for _, x := range []string{before, packet} {
		if x != "" {
			f.all = append(f.all, udp(7400, unhex(t, x)))
		}
	}
	f.at = append(f.at, len(f.all)-1)
}

// shown returns the packets as tshark shows them.
func (f *frames) shown(t *testing.T) []flat {
	t.Helper()
	all := tshark(t, capture(101, f.all))
	if len(all) != len(f.all) {
		t.Fatalf("tshark shows %d packets, want %d", len(all), len(f.all))
	}
	return all
}

// tshark has no keys and verifies nothing. It shows the header of an invalid sealed packet, only the
// version if that is unknown, and nothing if it is no sealed packet. docs/protocol §27.2, §27.6.
func TestTsharkInvalidSealed(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	v := testenv.ReadSealedVectors(t)
	var f frames
	for _, x := range v.Bad {
		f.add(t, x.After, x.Sealed)
	}
	all := f.shown(t)
	for i, x := range v.Bad {
		t.Run(x.Name, func(t *testing.T) {
			p, b := all[f.at[i]], unhex(t, x.Sealed)
			switch x.Fails {
			case "magic", "open": // empty, or another magic, or not the type of an open packet: it may be another protocol's
				p.unshown(t)
				return
			case "version":
				if got := p.number(t, "fanfare.sealed.version"); got != uint64(b[2]) || p["fanfare.sealed.key"] != nil {
					t.Errorf("packet %v, want sealed version %d and no key", p, b[2])
				}
			default:
				if got, want := p.number(t, "fanfare.sealed.key"), binary.LittleEndian.Uint32(b[8:]); got != uint64(want) {
					t.Errorf("key %#x, want %#x", got, want)
				}
			}
			if p["fanfare.type"] != nil {
				t.Errorf("encrypted fields are shown: %v", p)
			}
		})
	}
}

// tshark shows nothing for malformed signed packets. It verifies no signature: of the others it
// shows the signature header as sent. docs/protocol §29.4, §29.9.
func TestTsharkInvalidSigned(t *testing.T) {
	testenv.Slow(t)
	v := testenv.ReadSignedVectors(t)
	trusted := make(map[uint64]bool)
	for _, k := range v.Keys {
		trusted[uint64(k.ID)] = k.Trusted
	}
	var f frames
	for _, x := range v.Bad {
		f.add(t, x.After, x.Signed)
	}
	all := f.shown(t)
	for i, x := range v.Bad {
		t.Run(x.Name, func(t *testing.T) {
			p, b := all[f.at[i]], unhex(t, x.Signed)
			switch x.Fails {
			case "malformed":
				p.unshown(t)
				return
			case "unsigned":
				if p["fanfare.type"] == nil || p["fanfare.signed.signature"] != nil {
					t.Errorf("packet %v, want a type and no signature", p)
				}
				return
			}
			counter := p.number(t, "fanfare.signed.counter")
			if got, want := p.one(t, "fanfare.signed.signature"), colons(fmt.Sprintf("%x", b[24:88])); got != want || counter != binary.LittleEndian.Uint64(b[8:]) {
				t.Errorf("shown: signature %s and counter %d, want %s", got, counter, want)
			}
			key := p.number(t, "fanfare.publisher") >> 32
			if known := x.Fails != "key"; trusted[key] != known {
				t.Errorf("key %#x of the publisher: want trusted %v", key, !known)
			}
			switch x.Fails {
			case "key", "forged":
			case "time":
				p.farFrom(t, "fanfare.signed.time", x.Now)
			case "replayed":
				if back := all[f.at[i]-1].number(t, "fanfare.signed.counter") - counter; back != 0 && (back < 64 || back > 1<<31) {
					t.Errorf("the counter is %d below that of the previous train, want 0, or 64 and more", back)
				}
			default:
				t.Errorf("the test has no check for %q", x.Fails)
			}
		})
	}
}
