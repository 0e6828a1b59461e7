package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// memberships follows the groups that a bus has lost. An interface that goes takes all of them with
// it: the first is said, and when all are back.
type memberships struct {
	mu    sync.Mutex
	away  map[string]int // times that a group is: for who publishes in it, and for who subscribes
	since time.Time      // the first was lost
	most  int            // groups
}

// event is the line to write of an event at now, empty where there is none.
func (m *memberships) event(e events.Event, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case events.GroupLost:
		first := len(m.away) == 0
		if first {
			m.away, m.since, m.most = make(map[string]int), now, 0
		}
		m.away[e.Group]++
		m.most = max(m.most, len(m.away))
		if first {
			return fmt.Sprintf("group %s is lost: %v: nothing comes or goes by it until it is joined again", e.Group, e.Err)
		}
	case events.GroupBack:
		if m.away[e.Group] == 0 {
			break
		}
		if m.away[e.Group]--; m.away[e.Group] > 0 {
			break
		}
		if delete(m.away, e.Group); len(m.away) > 0 {
			break
		}
		d := now.Sub(m.since).Round(10 * time.Millisecond)
		if m.most == 1 {
			return fmt.Sprintf("group %s is joined again, after %v", e.Group, d)
		}
		return fmt.Sprintf("all %d groups are joined again, after %v", m.most, d)
	}
	return ""
}
