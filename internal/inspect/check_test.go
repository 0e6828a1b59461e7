package inspect

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Check accepts possible snapshots, and refuses impossible values and lists that are too long.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Bus)
		want   string // empty: no error
	}{
		"nothing":           {func(*Bus) {}, ""},
		"the largest lists": {func(b *Bus) { b.Topics, b.Events = make([]Topic, MaxTopics), make([]Event, MaxEvents) }, ""},
		"the widest histogram": {func(b *Bus) {
			b.Delivery.Buckets = []stats.Bucket{{Index: -640, Count: 1}, {Index: 512, Count: math.MaxUint64}}
		}, ""},
		"a bucket":          {func(b *Bus) { b.Repair.Buckets = []stats.Bucket{{Index: 100000, Count: 1}} }, "the index 100000"},
		"a bucket below":    {func(b *Bus) { b.Delivery.Buckets = []stats.Bucket{{Index: math.MinInt, Count: 1}} }, "the index -"},
		"a large time":      {func(b *Bus) { b.Publications = []Publication{{RTT: 1e300}} }, "Publication.RTT is 1e+300"},
		"a small time":      {func(b *Bus) { b.Legs = []Leg{{Skew: -1e300}} }, "Leg.Skew"},
		"not a number":      {func(b *Bus) { b.NoPublisher = math.NaN() }, "Bus.NoPublisher is NaN"},
		"a loss":            {func(b *Bus) { b.Losses = &LossRecord{Losses: []Loss{{For: math.Inf(1)}}} }, "Loss.For"},
		"a late event":      {func(b *Bus) { b.Events = []Event{{Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}} }, "Event.Time is in the year 9999"},
		"topics":            {func(b *Bus) { b.Topics = make([]Topic, MaxTopics+1) }, "257 topics exceed the maximum of 256"},
		"subscriptions":     {func(b *Bus) { b.Subscriptions = make([]Subscription, MaxSubscriptions+1) }, "257 subscriptions"},
		"events":            {func(b *Bus) { b.Events = make([]Event, MaxEvents+1) }, "257 events"},
		"topics of one":     {func(b *Bus) { b.Subscriptions = []Subscription{{Topics: make([]string, MaxSubscribed+1)}} }, "65 topics of a subscription"},
		"publishers of one": {func(b *Bus) { b.Subscriptions = []Subscription{{Publishers: make([]SubscriptionFeed, MaxFeeds+1)}} }, "65 publishers of a subscription"},
		"losses":            {func(b *Bus) { b.Losses = &LossRecord{Losses: make([]Loss, maxLosses+1)} }, "4097 losses"},
		"minutes":           {func(b *Bus) { b.Losses = &LossRecord{Minutes: make([]stats.LossMinute, maxMinutes+1)} }, "129 minutes"},
		"ways of a minute": {func(b *Bus) {
			b.Losses = &LossRecord{Minutes: []stats.LossMinute{{Ways: make([]stats.LossWay, maxWays+1)}}}
		}, "65 ways"},
		"an interface of many": {func(b *Bus) { b.Fabric.Interfaces = make([]string, 1000) }, "1000 interfaces"},
		"legs":                 {func(b *Bus) { b.Legs = make([]Leg, 1000) }, "1000 legs"},
		"a long interface":     {func(b *Bus) { b.Fabric.Interfaces = []string{strings.Repeat("x", 1000)} }, "Fabric.Interfaces has 1000 bytes"},
		"a long name":          {func(b *Bus) { b.Name = strings.Repeat("x", 1000) }, "Identity.Name has 1000 bytes"},
		"a long address":       {func(b *Bus) { b.Publications = []Publication{{Address: strings.Repeat("x", 1000)}} }, "Publication.Address has 1000 bytes"},
		"a long topic":         {func(b *Bus) { b.Topics = []Topic{{Name: strings.Repeat("x", 255)}} }, ""},
		"long texts": {func(b *Bus) {
			b.Incomplete, b.URLs = strings.Repeat("x", 1000), []string{strings.Repeat("x", 1000)}
			b.Events = []Event{{Text: strings.Repeat("x", 1000), Topics: make([]string, 1000)}}
		}, ""},
		"counters": {func(b *Bus) {
			b.Counters = make(Counters)
			for i := range 5000 {
				b.Counters[strings.Repeat("x", i)] = 1
			}
		}, "Bus.Counters are 5000"},
		"buckets":        {func(b *Bus) { b.Repair.Buckets = make([]stats.Bucket, 9000) }, "Latency.Buckets are 9000"},
		"a large number": {func(b *Bus) { b.TopicsLeftOut = math.MaxInt }, "Bus.TopicsLeftOut is 9223372036854775807"},
		"a full record": {func(b *Bus) {
			b.Losses = &LossRecord{Losses: make([]Loss, 40*64), Minutes: make([]stats.LossMinute, 62)}
		}, ""},
	} {
		s := &Snapshot{Version: Version, Time: time.Now(), Buses: []Bus{{}, {}}}
		c.change(&s.Buses[1])
		err := s.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Check: error %v, want one containing %q (none where empty)", name, err, c.want)
		}
		if err == nil {
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("%s: encoding as JSON: %v", name, err)
			}
		}
	}
}
