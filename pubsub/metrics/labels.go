package metrics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// MaxNames is how many publishers, how many subscribers, and how many groups that are
// received or published, have metrics under their own names: the others of a bus are one,
// called Other. One that has a name of its own keeps it for as long as it is there.
const MaxNames = 64

// Other is the label of all publishers, subscribers or groups beyond MaxNames.
const Other = "other"

// labels decides which of them have metrics under their own names.
type labels struct{ own map[string]bool }

// assign gives each of those present its label: its name, or Other. Those that had theirs
// keep it; what others have left goes to the next in the order of the alphabet.
func (n *labels) assign(present []string) (label func(name string) string) {
	slices.Sort(present)
	present = slices.Compact(present)
	own := make(map[string]bool, MaxNames)
	for _, name := range present {
		if n.own[name] {
			own[name] = true
		}
	}
	for _, name := range present {
		if len(own) == MaxNames {
			break
		}
		own[name] = true
	}
	n.own = own
	return func(name string) string {
		if own[name] {
			return name
		}
		return Other
	}
}

// collectNamed shows the metrics of each of all under its label. Of those that share one it
// shows what the metric makes of their values.
func collectNamed[T any](out chan<- prometheus.Metric, metrics []metric[T], all []T, name func(*T) string, n *labels) {
	names := make([]string, len(all))
	for i := range all {
		names[i] = name(&all[i])
	}
	label := n.assign(slices.Clone(names))
	of := make(map[string][]*T)
	for i := range all {
		l := label(names[i])
		of[l] = append(of[l], &all[i])
	}
	for l, same := range of {
		for m := range metrics {
			metrics[m].collectAll(out, same, l)
		}
	}
}

func publisherName(p *stats.Publisher) string { return cmp.Or(p.Name, p.ID.String()) }

func subscriberName(s *stats.Subscriber) string { return cmp.Or(s.Name, fmt.Sprintf("%016x", s.ID)) }

func groupName(g *stats.Group) string { return g.Address }

func publicationName(p *stats.Publication) string { return p.Address }

// publishers are those of all groups: one is in several, and may have several instances.
func publishers(st *stats.Bus) (all []stats.Publisher) {
	for g := range st.Groups {
		all = append(all, st.Groups[g].Publishers...)
	}
	return all
}

// subscribers are those of all groups.
func subscribers(st *stats.Bus) (all []stats.Subscriber) {
	for p := range st.Publications {
		all = append(all, st.Publications[p].Subscribers...)
	}
	return all
}
