package cli

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// jsonLeg is what one leg did, where the fabric was given by several URLs.
type jsonLeg struct {
	URL              string  `json:"url"`
	Up               bool    `json:"up"`
	Packets          uint64  `json:"packets"` // that it brought
	Copies           uint64  `json:"copies"`  // of them, those that another had brought
	Lost             uint64  `json:"lost"`
	Filled           uint64  `json:"filled"` // of those lost, by another
	Falls            uint64  `json:"falls"`  // times that it fell silent while another was heard
	Unsent           uint64  `json:"unsent"` // packets that went out on others only
	SkewMicroseconds float64 `json:"skew_us"`
}

func legsOf(st *pubsub.Stats) (all []jsonLeg) {
	for _, l := range st.Legs {
		all = append(all, jsonLeg{l.URL, l.Up, l.Packets, l.Copies, l.Lost, l.Filled, l.Falls, l.Unsent, micro(l.Skew)})
	}
	return all
}

// sayLegs says what each leg did.
func (c *common) sayLegs(e *env, legs []jsonLeg) {
	for i, l := range legs {
		up := ""
		if !l.Up {
			up = "down"
		}
		brought := ""
		if l.Packets > 0 || l.Lost > 0 {
			brought = fmt.Sprintf("%s brought, %d lost, of them %d filled by another leg", count(l.Packets, "packet"), l.Lost, l.Filled)
		}
		falls := some(l.Falls, "time")
		if falls != "" {
			falls = "silent " + falls
		}
		if text := list(up, brought, falls, someThat(l.Unsent, "packet", "not sent by it")); text != "" {
			e.console.line("leg %d, %s: %s", i+1, l.URL, text)
		}
	}
}

// fabricEvent says that a leg or a group is down, or back, that nothing can be sent, that packets cannot
// be opened, and that who comes does not find this bus any more.
func (c *common) fabricEvent(e *env, ev events.Event) {
	c.unreadable.event(e, ev)
	switch ev.Kind {
	case events.LegDown, events.LegBack:
		e.console.line("%v", ev)
	case events.Unfindable:
		e.console.line("%v", ev.Err)
	case events.GroupLost, events.GroupBack:
		if text := c.memberships.event(ev, time.Now()); text != "" {
			e.console.line("%s", text)
		}
	case events.CannotSend:
		e.console.line("nothing could be sent for %v, %s waiting: %v", ev.For.Round(10*time.Millisecond), count(ev.Behind, "packet"), ev.Err)
	case events.SendsAgain:
		e.console.line("sending again, after %v", ev.For.Round(10*time.Millisecond))
	}
}
