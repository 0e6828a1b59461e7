package losses

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A lost publisher is no peer until it, or another instance of it, is received again; a
// subscription without publishers gives the reason, if its bus knows it.
func TestPublisherStates(t *testing.T) {
	feed := func(id string, lost float64) inspect.SubscriptionFeed {
		return inspect.SubscriptionFeed{Publisher: id, Name: id, Relevant: true, LostFor: lost}
	}
	nameless := func(lost float64) inspect.SubscriptionFeed {
		return inspect.SubscriptionFeed{Publisher: "n", Relevant: true, LostFor: lost}
	}
	other := inspect.SubscriptionFeed{Publisher: "o", LostFor: 5} // of other topics
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
		{"all are present", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), feed("b", 0), other}, 2, "", false, ""},
		{"the only one is lost", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 5), other}, 0, PublisherLost, true, "publisher a of md.a was lost 5 s ago, and no other is detected"},
		{"and long ago", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 7000)}, 0, PublisherLost, true, "publisher a of md.a was lost 116 min ago, and no other is detected"},
		{"one of two is lost", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), feed("b", 9)}, 1, PublisherLost, true, "publisher b of md.a was lost 9 s ago"},
		{"and long ago", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), feed("b", 90)}, 1, PublisherLost, false, "publisher b of md.a was lost 90 s ago"},
		{"the last of two", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 90), feed("b", 9)}, 0, PublisherLost, true, "publisher b of md.a was lost 9 s ago, and no other is detected"},
		{"one was restarted", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 3), feed("a", 0)}, 1, "", false, ""},
		{"one without a name, another is present", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), nameless(9)}, 1, PublisherLost, true, "publisher n of md.a was lost 9 s ago"},
		{"and long ago", inspect.Bus{}, []inspect.SubscriptionFeed{feed("a", 0), nameless(90)}, 1, "", false, ""},
		{"and no other is", inspect.Bus{}, []inspect.SubscriptionFeed{nameless(90)}, 0, PublisherLost, true, "publisher n of md.a was lost 90 s ago, and no other is detected"},
		{"none", inspect.Bus{}, []inspect.SubscriptionFeed{other}, 0, NoPublisher, false, ""},
		{"none, because of other keys", inspect.Bus{Events: []inspect.Event{unreadable, {Kind: "subscriber_up"}}}, nil, 0, NoPublisher, false, "no publisher of md.a is detected; packets unreadable: another key"},
		{"reported so long ago that its text is gone", inspect.Bus{EventCounts: map[string]uint64{"config_mismatch": 1}}, nil, 0, NoPublisher, false, "no publisher of md.a is detected; config mismatch"},
		{"one, and packets of others", inspect.Bus{Events: []inspect.Event{unreadable}}, []inspect.SubscriptionFeed{feed("a", 0)}, 1, "", false, ""},
		{"a bus with an incomplete answer", inspect.Bus{Incomplete: "busy"}, nil, 0, "", false, ""},
		{"more than are listed", inspect.Bus{}, many, 0, "", false, ""},
	} {
		s := inspect.Subscription{Topics: []string{"md.a"}, Publishers: c.feeds}
		h := HearingOf(&c.bus, &s)
		if h.Peers != c.peers || h.State != c.state || h.Silenced() != c.silenced || h.Text(&s) != c.text {
			t.Errorf("%s: %d peers, state %q, silenced %v, %q, want %d, %q, %v, %q", c.name, h.Peers, h.State, h.Silenced(), h.Text(&s), c.peers, c.state, c.silenced, c.text)
		}
	}
}
