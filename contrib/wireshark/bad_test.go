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

// one is the value of a field that a packet has once; empty if it has none.
func (m flat) one(t *testing.T, field string) string {
	t.Helper()
	if len(m[field]) > 1 {
		t.Errorf("%s is %q", field, m[field])
	}
	return strings.Join(m[field], " ")
}

// number is the value of a field that is a number.
func (m flat) number(t *testing.T, field string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(m.one(t, field), 0, 64)
	if err != nil {
		t.Errorf("%s: %v", field, err)
	}
	return n
}

// farFrom fails unless the time that a field shows is more than five minutes from now, as a receiver would see it.
func (m flat) farFrom(t *testing.T, field string, now uint32) {
	t.Helper()
	at, err := time.Parse("Jan _2, 2006 15:04:05.000000000 UTC", m.one(t, field))
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	if d := at.Sub(time.Unix(int64(now), 0)).Abs(); d <= 5*time.Minute {
		t.Errorf("%s is %v from now", field, d)
	}
}

// unshown fails if the dissector says anything of a packet.
func (m flat) unshown(t *testing.T) {
	t.Helper()
	for field := range m {
		if strings.HasPrefix(field, "fanfare.") {
			t.Errorf("%s is shown of what is no packet", field)
		}
	}
}

// frames makes a capture of packets, each behind the one that came before it, if there is one. at is where each is.
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

// Of the bad sealed packets tshark shows the header, of another version no more than that, and of what is no sealed packet nothing: it has no
// keys, and verifies none. docs/protocol §27.2, §27.6.
func TestTsharkBadSealed(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	v := testenv.ReadSealedVectors(t)
	var f frames
	for _, x := range v.Bad {
		f.add(t, x.After, x.Sealed)
	}
	all := tshark(t, capture(101, f.all))
	if len(all) != len(f.all) {
		t.Fatalf("%d packets of %d", len(all), len(f.all))
	}
	for i, x := range v.Bad {
		t.Run(x.Name, func(t *testing.T) {
			p, b := all[f.at[i]], unhex(t, x.Sealed)
			switch x.Fails {
			case "magic", "open": // nothing in it, or no magic of ours, or no type of an open packet: others may have sent that
				p.unshown(t)
				return
			case "version":
				if got := p.number(t, "fanfare.sealed.version"); got != uint64(b[2]) || p["fanfare.sealed.key"] != nil {
					t.Errorf("it shows %v", p)
				}
			default:
				if got, want := p.number(t, "fanfare.sealed.key"), binary.LittleEndian.Uint32(b[8:]); got != uint64(want) {
					t.Errorf("key %#x, want %#x", got, want)
				}
			}
			if p["fanfare.type"] != nil {
				t.Errorf("%v is shown of what is sealed", p)
			}
		})
	}
}

// Of the bad signed packets tshark takes those for no packets that cannot be read. It verifies none of the others: it shows what signs them, as it
// stands there. docs/protocol §29.4, §29.9.
func TestTsharkBadSigned(t *testing.T) {
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
	all := tshark(t, capture(101, f.all))
	if len(all) != len(f.all) {
		t.Fatalf("%d packets of %d", len(all), len(f.all))
	}
	for i, x := range v.Bad {
		t.Run(x.Name, func(t *testing.T) {
			p, b := all[f.at[i]], unhex(t, x.Signed)
			switch x.Fails {
			case "malformed":
				p.unshown(t)
				return
			case "unsigned":
				if p["fanfare.type"] == nil || p["fanfare.signed.signature"] != nil {
					t.Errorf("it shows %v", p)
				}
				return
			}
			counter := p.number(t, "fanfare.signed.counter")
			if got, want := p.one(t, "fanfare.signed.signature"), colons(fmt.Sprintf("%x", b[24:88])); got != want || counter != binary.LittleEndian.Uint64(b[8:]) {
				t.Errorf("signature %s and counter %d are shown, want %s", got, counter, want)
			}
			key := p.number(t, "fanfare.publisher") >> 32
			if known := x.Fails != "key"; trusted[key] != known {
				t.Errorf("it is of a publisher of key %#x, trusted: %v", key, !known)
			}
			switch x.Fails {
			case "key", "forged":
			case "time":
				p.farFrom(t, "fanfare.signed.time", x.Now)
			case "replayed":
				if back := all[f.at[i]-1].number(t, "fanfare.signed.counter") - counter; back != 0 && (back < 64 || back > 1<<31) {
					t.Errorf("its train is %d behind the one before", back)
				}
			default:
				t.Errorf("tshark is not asked here about %q", x.Fails)
			}
		})
	}
}
