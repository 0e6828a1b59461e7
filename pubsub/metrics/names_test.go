package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Labels are bounded, and who has one keeps it.
func TestNames(t *testing.T) {
	var n names
	var many []string
	for i := range MaxNames {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	label := n.assign(many)
	if label("m00") != "m00" || label(many[MaxNames-1]) != many[MaxNames-1] {
		t.Error("as many as there may be do not have their names")
	}
	label = n.assign(append(many[:MaxNames:MaxNames], "a", "b"))
	if label("a") != Other || label("b") != Other || label("m63") != "m63" {
		t.Error("one that came later has taken a name")
	}
	label = n.assign(append(many[1:MaxNames:MaxNames], "b", "a"))
	if label("a") != "a" || label("b") != Other || len(n.own) != MaxNames {
		t.Error("a name that was left was not given to the next")
	}
}

// What is shown of a publisher or subscriber is of all its groups.
func TestNamesOfAllGroups(t *testing.T) {
	var st pubsub.Stats
	for i := range uint64(2) {
		st.Groups = append(st.Groups, pubsub.GroupStats{Publishers: []pubsub.PublisherStats{{ID: 7, Name: "feed", Packets: 10, Lost: i}, {ID: 9, Packets: 1}}})
		st.Publications = append(st.Publications, pubsub.PublicationStats{Subscribers: []pubsub.Receiver{
			{ID: 1, Name: "slow", Behind: 5 * i, Holds: i == 0}, {ID: 2, LastHeard: time.Second},
		}})
	}
	var a, b names
	p, s := publishers(&st, &a), subscribers(&st, &b)
	if len(p) != 2 || p["feed"].Packets != 20 || p["feed"].Lost != 1 || p["0000000000000009"].Packets != 2 {
		t.Errorf("publishers: %v", p)
	}
	if len(s) != 2 || s["slow"].Behind != 5 || !s["slow"].Holds || s["0000000000000002"].LastHeard != time.Second {
		t.Errorf("subscribers: %v", s)
	}
}
