package sim

import (
	"testing"
	"time"
)

// At the end a publisher that queries its topics knows the subscribers of each, by name or by a pattern,
// including one that was added late; those that have left or were killed do not count. docs/protocol §7.10.
func TestQueries(t *testing.T) {
	for seed := range uint64(10) {
		o := Simple(seed, 6, 500)
		o.Net.Loss, o.Net.UnicastLoss = 5*Percent, 20*Percent
		o.Publishers[0].Topics, o.Publishers[0].Queries = 12, time.Millisecond
		for i, texts := range [][]string{{"sim.odd.*.*"}, {"sim.none.>"}, {"*.*.*.3", "sim.even.>"}, {">"}, {">"}} {
			x := &o.Subscribers[i]
			x.Topics = i % 2
			for j, text := range texts {
				x.Patterns = append(x.Patterns, Pattern{At: time.Duration(j) * 2 * time.Millisecond, Text: text})
			}
		}
		o.Subscribers[3].Stays = []Stay{{Stop: StopKill, For: 5 * time.Millisecond}}
		o.Subscribers[4].Stays = []Stay{{Stop: StopEnd, For: 5 * time.Millisecond}}
		o.Publishers[0].Lives[0].Stop = StopNever
		if r := mustRun(t, o); r.Answered != 12 || r.Sender.ReceiversJoined < 6 {
			t.Errorf("seed %d: %d of 12 topics have complete answers, %d subscribers joined, want all, and at least 6", seed, r.Answered, r.Sender.ReceiversJoined)
		}
	}
}
