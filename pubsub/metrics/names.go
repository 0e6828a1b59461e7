package metrics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/pubsub"
)

// MaxNames is how many publishers, and how many subscribers, have metrics under their own
// names: the others of a bus are one, called Other. Whoever has a name of its own keeps it
// for as long as it is there.
const MaxNames = 64

// Other is the label of all publishers, or subscribers, beyond MaxNames.
const Other = "other"

// names decides who has metrics under its own name.
type names struct{ own map[string]bool }

// assign gives each of those present its label: its name, or Other. Those that had theirs
// keep it; what others have left goes to the next in the order of the alphabet.
func (n *names) assign(present []string) (label func(name string) string) {
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

func publisherName(p *pubsub.PublisherStats) string { return cmp.Or(p.Name, p.ID.String()) }

func subscriberName(s *pubsub.Receiver) string { return cmp.Or(s.Name, fmt.Sprintf("%016x", s.ID)) }

// publishers adds up what is counted of each publisher, over all groups and instances.
func publishers(st *pubsub.Stats, n *names) map[string]*pubsub.PublisherStats {
	var all []pubsub.PublisherStats
	for g := range st.Groups {
		all = append(all, st.Groups[g].Publishers...)
	}
	return byName(all, publisherName, n, func(x, p *pubsub.PublisherStats) {
		x.Packets, x.Repaired, x.Lost, x.Missing = x.Packets+p.Packets, x.Repaired+p.Repaired, x.Lost+p.Lost, x.Missing+p.Missing
	})
}

// subscribers is the worst that is known of each, over all groups.
func subscribers(st *pubsub.Stats, n *names) map[string]*pubsub.Receiver {
	var all []pubsub.Receiver
	for p := range st.Publications {
		all = append(all, st.Publications[p].Subscribers...)
	}
	return byName(all, subscriberName, n, func(x, s *pubsub.Receiver) {
		x.Behind, x.LastHeard = max(x.Behind, s.Behind), max(x.LastHeard, s.LastHeard)
		x.Holds, x.Released = x.Holds || s.Holds, x.Released || s.Released
	})
}

// byName makes one of all that have the same label: add takes each in.
func byName[T any](all []T, name func(*T) string, n *names, add func(sum, each *T)) map[string]*T {
	present := make([]string, len(all))
	for i := range all {
		present[i] = name(&all[i])
	}
	label, sums := n.assign(present), make(map[string]*T)
	for i := range all {
		l := label(name(&all[i]))
		if sums[l] == nil {
			sums[l] = new(T)
		}
		add(sums[l], &all[i])
	}
	return sums
}
