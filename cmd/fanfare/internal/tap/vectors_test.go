package tap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// clockSkew is the maximum difference between the time of a packet and a receiver's clock, in seconds. docs/protocol
// §27.6, §29.4.
const clockSkew = 300

// fromNow is the distance between two times.
func fromNow(at, now uint32) int64 { return max(int64(at)-int64(now), int64(now)-int64(at)) }

// reader is an observer with the keys, on a fabric of eight groups.
func reader(t *testing.T, v *testenv.SealedVectors) (o *Observer, observe func(hex string, index uint32) *Packet) {
	t.Helper()
	keys, err := sealed.NewKeyset([]sealed.Key{{ID: sealed.KeyID(v.Keys[0].ID), Secret: [32]byte(unhex(t, v.Keys[0].Secret))}})
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for i := range 8 {
		addresses = append(addresses, fmt.Sprint("group ", i))
	}
	o = NewObserver(NewGroups(addresses), func(Finding) {})
	o.Unsealer = sealed.NewReader(keys)
	return o, func(hex string, index uint32) *Packet {
		p := &Packet{Data: unhex(t, hex), From: "a", To: "b"}
		if index != unicastIndex {
			p.Address = addresses[index]
		}
		o.Locate(p)
		o.Observe(p)
		return p
	}
}

// With the key none of the bad sealed packets is opened, and the error is that of the failing
// check, for known and unknown senders. Times and earlier packets are checked by receivers only:
// tap opens such packets, and shows time and counter. docs/protocol §27.6.
func TestBadSealedPackets(t *testing.T) {
	v := testenv.ReadSealedVectors(t)
	for _, known := range []bool{false, true} {
		for _, x := range v.Bad {
			t.Run(fmt.Sprintf("%s, sender known %v", x.Name, known), func(t *testing.T) {
				o, observe := reader(t, &v)
				for _, g := range v.Good {
					if known {
						if p := observe(g.Sealed, g.Index); p.Sealed.Err != nil {
							t.Fatalf("a good packet cannot be opened: %v", p.Sealed.Err)
						}
					}
				}
				var before *Packet
				if x.After != "" {
					before = observe(x.After, x.Index)
				}
				was := o.Totals
				p := observe(x.Sealed, x.Index)
				refused := func(why error) {
					t.Helper()
					if p.Sealed == nil || !errors.Is(p.Sealed.Err, why) || o.Unopened != 1 || !bytes.Equal(p.Data, unhex(t, x.Sealed)) {
						t.Errorf("%+v, %d not opened; want that it %v", p.Sealed, o.Unopened, why)
					}
				}
				opened := func() bool {
					t.Helper()
					if p.Sealed == nil || p.Sealed.Err != nil || o.Unopened != 0 {
						t.Errorf("%+v, %d not opened, but the packet itself is valid", p.Sealed, o.Unopened)
						return false
					}
					return true
				}
				switch x.Fails {
				case "magic": // only the magic of a sealed packet, or a foreign packet
					if wire.IsSealed(unhex(t, x.Sealed)) {
						refused(sealed.ErrShort)
					} else if p.Sealed != nil || o.Foreign != was.Foreign+1 {
						t.Errorf("packet %+v, %d foreign, want it unsealed and %d foreign", p.Sealed, o.Foreign, was.Foreign+1)
					}
				case "open": // it is parsed as an unsealed packet of unknown type
					if p.Sealed != nil || o.Malformed != was.Malformed+1 || !errors.Is(p.Read.Err, wire.ErrType) {
						t.Errorf("packet %+v, %d malformed, error %v, want it unsealed, %d malformed and %v", p.Sealed, o.Malformed, p.Read.Err, was.Malformed+1, wire.ErrType)
					}
				case "version":
					refused(sealed.ErrVersion)
				case "key":
					var missing *sealed.LackingError
					if p.Sealed == nil || !errors.As(p.Sealed.Err, &missing) || uint32(missing.Key) == v.Keys[0].ID || uint32(missing.Key) != p.Sealed.Key {
						t.Errorf("%+v, want the error of a missing key", p.Sealed)
					}
				case "forged":
					refused(sealed.ErrForged)
				case "time":
					if opened() && fromNow(p.Sealed.Time, x.Now) <= clockSkew {
						t.Errorf("sent at %d, too close to %d", p.Sealed.Time, x.Now)
					}
				case "replayed":
					if !opened() {
						return
					}
					if before == nil || before.Sealed.Err != nil || before.Sealed.Salt != p.Sealed.Salt {
						t.Fatalf("the packet before is %+v, want an opened one with salt %v", before, p.Sealed.Salt)
					}
					if back := before.Sealed.Counter - p.Sealed.Counter; back != 0 && (back < 16384 || back > 1<<31) {
						t.Errorf("its counter is %d, after %d", p.Sealed.Counter, before.Sealed.Counter)
					}
				default:
					t.Errorf("unexpected check %q", x.Fails)
				}
			})
		}
	}
}

// Of the bad signed packets those that cannot be parsed are reported as malformed. Others are shown with their
// signature fields: tap has no public keys, verifies no signature, and tracks no signed streams. docs/protocol §29.4,
// §29.9.
func TestBadSignedPackets(t *testing.T) {
	v := testenv.ReadSignedVectors(t)
	trusted := make(map[uint32]bool)
	for _, k := range v.Keys {
		trusted[k.ID] = k.Trusted
	}
	for _, x := range v.Bad {
		t.Run(x.Name, func(t *testing.T) {
			o := NewObserver(NewGroups(nil), func(Finding) {})
			observe := func(s string) *Packet {
				p := &Packet{Data: unhex(t, s), From: "a", To: "b"}
				o.Locate(p)
				o.Observe(p)
				return p
			}
			var before *Packet
			if x.After != "" {
				before = observe(x.After)
			}
			p := observe(x.Signed)
			if x.Fails == "unsigned" {
				if p.Signed != nil || o.Signed != 0 || o.Foreign != 0 {
					t.Errorf("packet %+v, %d signed, %d foreign, want it unsigned and none", p.Signed, o.Signed, o.Foreign)
				}
				return
			}
			if p.Signed == nil {
				t.Fatal("not shown as signed")
			}
			if x.Fails == "malformed" {
				if why := p.Signed.Err; !errors.Is(why, wire.ErrMalformed) && !errors.Is(why, wire.ErrVersion) || o.Malformed != 1 || o.Reasons["signed: "+why.Error()] != 1 {
					t.Errorf("error %v, %d malformed for %v, want 1 as malformed or of another version", why, o.Malformed, o.Reasons)
				}
				return
			}
			s := p.Signed
			shown := make([]byte, wire.SignedLen)
			wire.PutSigned(shown, &s.Signed)
			copy(shown[wire.SignedLen-len(s.Signature):], s.Signature)
			if shown = append(append(shown, s.Path...), s.Packet...); s.Err != nil || !bytes.Equal(shown, unhex(t, x.Signed)) {
				t.Fatalf("error %v, packet shown as %x, want %s", s.Err, shown, x.Signed)
			}
			if known := x.Fails != "key"; trusted[s.Key()] != known {
				t.Errorf("signed with key %#x, trusted: %v, want %v", s.Key(), !known, known)
			}
			switch x.Fails {
			case "key", "forged":
			case "time":
				if fromNow(s.Time, x.Now) <= clockSkew {
					t.Errorf("signed at %d, too close to %d", s.Time, x.Now)
				}
			case "replayed":
				if before == nil || before.Signed.Key() != s.Key() || before.Signed.Counter != s.Counter && before.Signed.Counter < s.Counter+64 {
					t.Errorf("packet %+v after %+v, want the same key and an old counter", s, before)
				}
			default:
				t.Errorf("unexpected check %q", x.Fails)
			}
		})
	}
}
