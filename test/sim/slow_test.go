package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Readers of each policy that do not block are all stopped for a while. A blocking reader
// continues: it receives everything, and the publisher is not blocked. The checkers verify the
// others: exact gaps, the newest message, the last message of each key.
func TestSlowPoliciesUnderPause(t *testing.T) {
	stop := []Pause{{At: 2 * time.Millisecond, For: 20 * time.Millisecond}}
	readers := []Reader{
		{Slow: slow.Policy{Kind: slow.Gap}, Stops: stop},
		{Slow: slow.Policy{Kind: slow.Latest, Behind: 10}, Stops: stop},
		{Slow: slow.Policy{Kind: slow.Evict, Behind: 10}, Stops: stop},
		{Conflate: 10, Stops: stop},
		{Conflate: 10},
		{Block: true},
	}
	o := Simple(1, 1, 50_000)
	o.Subscribers[0].Readers = readers
	r := mustRun(t, o)
	if r.Sender.FlowBlocked > 0 || r.Receiver.Lost > 0 || r.Jumps == 0 || r.Evicted != 1 || r.Replaced == 0 || r.Gaps[events.CauseSlowConsumer] == 0 {
		t.Errorf("publisher blocked %d times, %d packets lost, %d jumps, %d evicted, %d replaced, gaps by cause %v",
			r.Sender.FlowBlocked, r.Receiver.Lost, r.Jumps, r.Evicted, r.Replaced, r.Gaps)
	}
	o = Simple(1, 1, 50_000)
	o.Subscribers[0].Readers = readers[4:]
	r = mustRun(t, o)
	if n := r.Messages; n != 3*50_000 || r.GapMessages > 0 || r.Sender.FlowBlocked > 0 {
		t.Errorf("%d messages, %d lost, publisher blocked %d times, want 150,000, none and never", n, r.GapMessages, r.Sender.FlowBlocked)
	}
}
