package reliable

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A receiver that requests the topics once gets them at most twice, and one that requests them
// repeatedly gets them at a limited rate. docs/protocol §9.3.
func TestAnnouncesKeepToTheirRate(t *testing.T) {
	const seconds = 5
	for name, c := range map[string]struct {
		every time.Duration // between statuses; 0: a single status
		most  func(one int) int
	}{
		"one status":    {0, func(one int) int { return 2 * one }},
		"many statuses": {time.Millisecond, func(one int) int { return seconds*announceRate*21/20 + 2*one }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *SenderConfig) { c.PacketSize, c.MaxTrain, c.MaxTrainBytes = 1472, 44, 65000 })
			for i := range 10_000 {
				b.topic(fmt.Sprint("topic.number.", i))
			}
			b.publish(1)
			tellings, bytes, idle := 0, 0, 0
			count := func() {
				for range seconds * 10_000 {
					if c.every > 0 && b.now.Sub(0)%c.every == 0 {
						b.status(666, 0, 0, wire.FlagWantTopics)
					}
					for _, p := range of(wire.TypeAnnounce, b.next()) {
						bytes += len(p.b)
						if a, _ := wire.ParseAnnounce(p.b); a.First+uint32(a.Count) == a.Total {
							tellings++
						}
					}
					b.now = b.now.Add(100 * time.Microsecond)
				}
			}
			if c.every == 0 {
				count()
				idle, bytes, tellings = bytes, 0, 0
				b.status(666, 0, 0, wire.FlagWantTopics)
			}
			count()
			one := b.s.topics.size * 21 / 20 // including headers
			if most := idle + c.most(one); bytes > most {
				t.Errorf("%d bytes of announces in %d s, want at most %d; a listing has %d", bytes, seconds, most, one)
			}
			if tellings < 2 {
				t.Errorf("%d listings", tellings)
			}
		})
	}
}
