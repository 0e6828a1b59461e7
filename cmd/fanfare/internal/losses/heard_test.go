package losses

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A publisher that was lost is no peer, until it, or another instance of it, is heard again; who
// hears nobody says why, where its bus knows.
func TestHearing(t *testing.T) {
	feed := func(id string, lost float64) inspect.SubscriptionFeed {
		return inspect.SubscriptionFeed{Publisher: id, Name: id, Relevant: true, LostFor: lost}
	}
	nameless := func(lost float64) inspect.SubscriptionFeed {
		return inspect.SubscriptionFeed{Publisher: "n", Relevant: true, LostFor: lost}
	}
	other := inspect.SubscriptionFeed{Publisher: "o", LostFor: 5} // of none of these topics
	unreadable := inspect.Event{Kind: "packets_unreadable", Text: "packets unreadable: another key"}
	many := make([]inspect.SubscriptionFeed, inspect.MaxFeeds)
	for i := range many {
		many[i] = feed(fmt.Sprint(i), 5)
	}
	for _, c := range []struct {
		name     string
		bus      inspect.Bus
		feeds    []inspect.SubscriptionFeed
		peers    int
		state    string
		silenced bool
		text     string
	}{
		{"all are there", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), feed("b", 0), other}, 2, "", false, ""},
		{"the only one is lost", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 5), other}, 0, PublisherLost, true, "publisher a of md.a was lost 5 s ago, and no other is heard"},
		{"and long ago", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 7000)}, 0, PublisherLost, true, "publisher a of md.a was lost 116 min ago, and no other is heard"},
		{"one of two is lost", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), feed("b", 9)}, 1, PublisherLost, true, "publisher b of md.a was lost 9 s ago"},
		{"and long ago", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), feed("b", 90)}, 1, PublisherLost, false, "publisher b of md.a was lost 90 s ago"},
		{"the last of two", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 90), feed("b", 9)}, 0, PublisherLost, true, "publisher b of md.a was lost 9 s ago, and no other is heard"},
		{"one was restarted", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 3), feed("a", 0)}, 1, "", false, ""},
		{"one without a name, another is there", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), nameless(9)}, 1, PublisherLost, true, "publisher n of md.a was lost 9 s ago"},
		{"and long ago", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), nameless(90)}, 1, "", false, ""},
		{"and no other is", inspect.Bus{}, []inspect.SubscriptionFeed{nameless(90)}, 0, PublisherLost, true, "publisher n of md.a was lost 90 s ago, and no other is heard"},
		{"nobody", inspect.Bus{}, []inspect.SubscriptionFeed{other}, 0, NoPublisher, false, ""},
		{"nobody, for other keys", inspect.Bus{Events: []inspect.Event{unreadable, {Kind: "subscriber_up"}}}, nil, 0, NoPublisher, false, "no publisher of md.a is heard; packets unreadable: another key"},
		{"told so long ago that its text is gone", inspect.Bus{EventCounts: map[string]uint64{"config_mismatch": 1}}, nil, 0, NoPublisher, false, "no publisher of md.a is heard; config mismatch"},
		{"one, and packets of others", inspect.Bus{Events: []inspect.Event{unreadable}}, []inspect.SubscriptionFeed{feed("a", 0)}, 1, "", false, ""},
		{"a bus that did not say all", inspect.Bus{Incomplete: "busy"}, nil, 0, "", false, ""},
		{"more than are listed", inspect.Bus{}, many, 0, "", false, ""},
	} {
		s := inspect.Subscription{Topics: []string{"md.a"}, Publishers: c.feeds}
		h := HearingOf(&c.bus, &s)
		if h.Peers != c.peers || h.State != c.state || h.Silenced() != c.silenced || h.Text(&s) != c.text {
			t.Errorf("%s: %d peers, state %q, silenced %v, %q", c.name, h.Peers, h.State, h.Silenced(), h.Text(&s))
		}
	}
}
