package sim

import "testing"

// With heavy loss in both directions a list still gets all topics of all publishers, including
// quiet ones, while they publish. list.go checks its content. docs/protocol §9.10.
func TestList(t *testing.T) {
	listed := uint64(0)
	const runs = 20
	for i := range uint64(runs) {
		o := busyFeed(i)
		o.Net.Loss, o.Net.UnicastLoss = 30*Percent, 30*Percent
		o.Publishers[0].Topics, o.Publishers[0].Lives[0].Messages = MaxTopics, 3000
		o.Subscribers[0].Lists = true
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		listed += r.Listed
	}
	if listed < runs*3/4 {
		t.Errorf("got complete lists of %d publishers, want %d", listed, runs)
	}
}
