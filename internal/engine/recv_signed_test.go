package engine

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// A bus does not verify its own packets. A packet that receivers would drop and report does not count as its own.
// docs/protocol §29.6.
func TestOwnIsNotVerified(t *testing.T) {
	l := &Loop{cfg: Config{Instance: events.Instance{Publisher: 7, Epoch: 9}}}
	own := wire.AppendHello(nil, wire.Header{Publisher: 7, Epoch: 9}, new(wire.Hello))
	changed := func(at int, b byte) []byte {
		p := append([]byte{}, own...)
		p[at] = b
		return p
	}
	for name, c := range map[string]struct {
		p    []byte
		want bool
	}{
		"own":             {own, true},
		"another epoch":   {changed(24, 8), false},
		"another version": {changed(2, 99), false},
		"looks sealed":    {changed(1, 's'), false},
		"cut":             {own[:wire.HeaderLen-1], false},
	} {
		if got := l.own(c.p); got != c.want {
			t.Errorf("%s: own returned %v, want %v", name, got, c.want)
		}
	}
}

// Replayed packets of another group are not verified, and their streams are not stored. docs/protocol §29.6.
func TestOfAnotherGroup(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	set, err := signed.NewTrust(signed.Grant{Topics: ">", Key: key.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	tr, l := newLoop(t, Config{Trust: signed.Static{Always: set}})
	subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyBlock, nil)
	other, err := mem.Open(mem.Config{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	signer, err := signed.NewSigner(key, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := signer.NewSender(other, 0)
	if err != nil {
		t.Fatal(err)
	}
	send := func(address string, done func() bool) {
		t.Helper()
		p := wire.AppendHello(nil, wire.Header{GroupTag: wire.GroupTag(address), Publisher: signed.PublisherID(key, 5), Epoch: 9}, new(wire.Hello))
		out := &transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}
		for ; !done(); time.Sleep(time.Millisecond) {
			if _, err := tx.Send(out); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := func() uint64 { return l.sharedStats().Sign.Streams }
	send(tr.GroupAddress(1), func() bool { return foreign(t, l) > 2 }) // later packets show whether the first was stored
	if known() != 0 {
		t.Errorf("%d streams stored, want none of another group", known())
	}
	send(tr.GroupAddress(0), func() bool { return known() == 1 })
}

// foreign returns the number of packets of other groups that group 0 refused.
func foreign(t *testing.T, l *Loop) (n uint64) {
	t.Helper()
	if err := l.do(func() { n = l.groups[0].r.Stats().Foreign }); err != nil {
		t.Fatal(err)
	}
	return n
}
