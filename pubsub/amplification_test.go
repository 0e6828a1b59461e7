package pubsub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/transport/mem"
)

// A packet that does not authenticate makes a bus send nothing, neither immediately nor by a timer: two buses with a
// topic each send no more packets and bytes in a minute with 12,000 hostile packets, to groups and by unicast, than
// in a minute without. docs/protocol §27.6.
func TestHostilePacketsCauseNoSends(t *testing.T) {
	const groups, attacks, seconds = 4, 12_000, 60
	type amount struct{ packets, bytes uint64 }
	sent, hostile := make(map[bool]amount), amount{packets: attacks}
	for _, attack := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			network, replies := mem.NewNetwork(), new(captured)
			key := newKey(t)
			set, err := NewKeySet(key)
			if err != nil {
				t.Fatal(err)
			}
			var buses []*Bus
			var inner []*mem.Transport // they also count what the sealing layer sends
			for range 2 {
				m, err := mem.Open(mem.Config{Network: network, Groups: groups})
				if err != nil {
					t.Fatal(err)
				}
				b, err := Config{Keys: StaticKeys(set), Logger: quiet, Wait: WaitPark}.OpenTransport(tappedTransport{m, replies})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				buses, inner = append(buses, b), append(inner, m)
			}
			sub, pub := subscribe(t, buses[0], "x"), publisher(t, buses[1], "x")
			wait(t, t.Context(), pub, 1)
			publishAll(t, t.Context(), pub, 100)
			expectAll(t, t.Context(), sub, 100)
			a := newAttacker(t, []*mem.Network{network}, groups, replies, newKey(t, key))
			for a.Recorded() < 20 { // heartbeats and hellos
				time.Sleep(time.Second)
				a.poll()
			}
			total := func() (n amount) {
				for _, m := range inner {
					s := m.Stats()
					n.packets, n.bytes = n.packets+s.PacketsSent, n.bytes+s.BytesSent
				}
				return n
			}
			before := total()
			for range seconds {
				time.Sleep(time.Second)
				if attack {
					a.run(attacks / seconds)
				}
			}
			synctest.Wait()
			after := total()
			sent[attack] = amount{after.packets - before.packets, after.bytes - before.bytes}
			hostile.bytes += a.bytes
			if one, two := buses[0].Stats().Seal, buses[1].Stats().Seal; attack && one.Forged+one.Replayed+two.Forged+two.Replayed < attacks/10 {
				t.Errorf("statistics %+v and %+v, want at least %d hostile packets", one, two, attacks/10)
			}
		})
	}
	without, under := sent[false], sent[true]
	t.Logf("%d packets of %d bytes were sent without an attack, and %d of %d while %d hostile ones of %d bytes arrived",
		without.packets, without.bytes, under.packets, under.bytes, hostile.packets, hostile.bytes)
	// The number of heartbeats may differ between minutes, by at most one in fifty.
	if under.packets > without.packets+without.packets/50 {
		t.Errorf("%d packets were sent under the attack, %d without, want at most 2 %% more", under.packets, without.packets)
	}
	if under.bytes > without.bytes+without.bytes/50 {
		t.Errorf("%d bytes were sent under the attack, %d without: that is %.4f for each hostile one",
			under.bytes, without.bytes, float64(under.bytes-without.bytes)/float64(hostile.bytes))
	}
}
