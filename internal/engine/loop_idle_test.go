package engine

import (
	"context"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// The loop sleeps while messages wait for the rate limit, or for the end of another writer's large message.
func TestBlockedLoopSleeps(t *testing.T) {
	ctx := context.Background()
	for name, block := range map[string]func(p *Publication, topic *topics.Topic){
		"another writer's message": func(p *Publication, topic *topics.Topic) {
			p.mu.Lock()
			other := p.m.NewWriter()
			p.s.Grant(other.Packets)
			other.AppendFragment(topic, make([]byte, 100_000), 0, 0)
			p.m.Assign(p.l.now(), other, false)
			p.mu.Unlock()
			for range 3 {
				p.Publish(ctx, topic, []byte("a"), true)
			}
		},
		"rate": func(p *Publication, topic *topics.Topic) {
			for i := 0; ; i++ {
				p.Publish(ctx, topic, make([]byte, 1000), true)
				p.mu.Lock()
				blocked := p.s.Blocked()
				p.mu.Unlock()
				if blocked == events.ReasonRate {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{}
			if name == "rate" {
				cfg = Config{FlushAfter: 500 * time.Millisecond, Sender: reliable.SenderConfig{Rate: 1 << 20}}
			}
			tr, l := newLoop(t, cfg)
			p, topic := publication(t, l, "x")
			block(p, topic)
			before, began := tr.polls.Load(), time.Now()
			time.Sleep(100 * time.Millisecond)
			n := tr.polls.Load() - before
			if waited := time.Since(began); n > int64(waited/(50*time.Microsecond)) {
				t.Errorf("%d polls in %v, want at most one per 50µs", n, waited)
			}
		})
	}
}
