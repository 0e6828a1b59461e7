package sim

import "testing"

// Under heavy loss both ways a list comes to have all topics of all publishers, quiet ones
// too, while these publish. What checks that it is true is in list.go. docs/protocol §9.10.
func TestList(t *testing.T) {
	listed := uint64(0)
	const runs = 20
	for i := range uint64(runs) {
		o := feedOf(i)
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
		t.Errorf("of %d publishers %d told all their topics", runs, listed)
	}
}
