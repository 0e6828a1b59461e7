package pubsub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/transport/mem"
)

// Nothing is sent because of a packet that does not authenticate, nor a timer begun that sends: two buses that say what they
// have to say, with a topic each, say no more in a minute in which 12,000 hostile packets come, to groups and to each of
// them, than in a minute without. docs/protocol.md §27.6.
func TestNothingIsSentBecauseOfHostilePackets(t *testing.T) {
	const groups, attacks, seconds = 4, 12_000, 60
	sent := make(map[bool]uint64)
	for _, attack := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			network, replies := mem.NewNetwork(), new(overheard)
			key := newKey(t)
			set, err := NewKeySet(key)
			if err != nil {
				t.Fatal(err)
			}
			var buses []*Bus
			for range 2 {
				m, err := mem.Open(mem.Config{Network: network, Groups: groups})
				if err != nil {
					t.Fatal(err)
				}
				b, err := Config{Keys: StaticKeys(set), Logger: quiet, Wait: WaitPark}.OpenTransport(ear{m, replies})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				buses = append(buses, b)
			}
			sub, pub := subscribe(t, buses[0], "x"), publisher(t, buses[1], "x")
			wait(t, t.Context(), pub, 1)
			publishAll(t, t.Context(), pub, 100)
			expectAll(t, t.Context(), sub, 100)
			a := newAttacker(t, []*mem.Network{network}, groups, replies, newKey(t, key))
			for a.Seen() < 20 { // heartbeats and hellos
				time.Sleep(time.Second)
				a.look()
			}
			before := buses[0].Stats().Transport.PacketsSent + buses[1].Stats().Transport.PacketsSent
			for range seconds {
				time.Sleep(time.Second)
				if attack {
					a.run(attacks / seconds)
				}
			}
			synctest.Wait()
			sent[attack] = buses[0].Stats().Transport.PacketsSent + buses[1].Stats().Transport.PacketsSent - before
			if s := buses[0].Stats().Seal; attack && s.Forged+s.Replayed < attacks/10 {
				t.Errorf("few of the attack's packets came: %+v", s)
			}
		})
	}
	t.Logf("%d packets were sent without an attack, and %d while %d hostile ones came", sent[false], sent[true], attacks)
	if sent[true] > sent[false]+sent[false]/10 {
		t.Errorf("%d packets were sent under the attack, %d without", sent[true], sent[false])
	}
}
