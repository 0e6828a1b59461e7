package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// MaxNames is the maximum number of publishers, of subscribers, of received groups and of published groups that have
// metrics under their own names. The others of a bus share the name Other. A publisher, subscriber or group with its
// own name keeps it as long as it is present.
const MaxNames = 64

// Other is the label of all publishers, subscribers or groups beyond MaxNames.
const Other = "other"

// labels holds the names that have their own metrics.
type labels struct{ own map[string]bool }

// assign gives each of the present names its label: the name itself, or Other. Names that had a label keep it; free
// labels go to the next names in alphabetical order.
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

// collectNamed sends the metrics of each of all under its label. The values of those that share a label are combined.
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

func subscriberName(s *stats.Subscriber) string { return cmp.Or(s.Name, s.ID.String()) }

func groupName(g *stats.Group) string { return g.Address }

func publicationName(p *stats.Publication) string { return p.Address }

// publishers are those of all groups: a publisher may occur in several groups, and with several instances.
func publishers(st *stats.Bus) (all []stats.Publisher) {
	for g := range st.Groups {
		all = append(all, st.Groups[g].Publishers...)
	}
	return all
}

// subscribers are those of all published groups.
func subscribers(st *stats.Bus) (all []stats.Subscriber) {
	for p := range st.Publications {
		all = append(all, st.Publications[p].Subscribers...)
	}
	return all
}
