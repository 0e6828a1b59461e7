package losses

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// goneShown is how long a subscriber that was given up is shown as gone.
const goneShown = time.Minute

// GoneSubscribers are the subscribers of a bus's publishers that it has given up lately, because they fell
// silent, as its events tell; without those that are back. They are by group and name, the latest last.
// Now is by the clock of its host (Clock).
func GoneSubscribers(b *inspect.Bus, now time.Time) (gone []inspect.Event) {
	type member struct{ group, name string }
	at := make(map[member]int)
	for _, e := range b.Events {
		k := member{e.Group, e.Name}
		i, had := at[k]
		switch {
		case e.Kind == "subscriber_up" && had:
			gone[i].Kind = "" // it is back
			delete(at, k)
		case e.Kind == "subscriber_silent" && now.Sub(e.Time) < goneShown:
			if had {
				gone[i].Kind = ""
			}
			at[k], gone = len(gone), append(gone, e)
		}
	}
	return slices.DeleteFunc(gone, func(e inspect.Event) bool { return e.Kind == "" })
}
