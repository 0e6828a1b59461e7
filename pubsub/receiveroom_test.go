package pubsub

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// If all groups share one receive queue, the room that a subscriber reports for all of them together is bounded by
// that queue; with a queue for each group it is larger. docs/protocol §7.3.
func TestRoomOfAllGroups(t *testing.T) {
	testenv.Slow(t)
	const topics = 500 // in all groups
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		if _, err := subBus.Handle("t.>", func(Message, error) {}); err != nil {
			t.Fatal(err)
		}
		for i := range topics {
			publisher(t, pubBus, fmt.Sprintf("t.%d", i))
		}
		all := pubBus.Stats().Publications
		// Not by WaitSubscribers, which puts names into the streams: one with new data has more room for a while.
		for ctx.Err() == nil && slices.ContainsFunc(all, func(p stats.Publication) bool { return len(p.Subscribers) == 0 }) {
			time.Sleep(time.Millisecond)
			all = pubBus.Stats().Publications
		}
		caps := subBus.Capabilities()
		if len(all) != caps.Groups {
			t.Fatalf("published in %d groups, want %d", len(all), caps.Groups)
		}
		room := 0
		for i := range all {
			for _, r := range all[i].Subscribers {
				room += int(r.Room)
			}
		}
		if fits := max(caps.ReceiveCapacity/2, 8*caps.Groups); caps.GroupsTogether && room > fits {
			t.Errorf("room for %d packets in all groups, but their queue holds %d", room, caps.ReceiveCapacity)
		} else if room == 0 {
			t.Error("no room")
		}
	})
}
