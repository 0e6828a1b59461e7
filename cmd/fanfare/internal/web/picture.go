package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// picture is the map: publishers and subscribers, which are buses of this host or others, groups, and their traffic.
type picture struct {
	Publishers  []node `json:"publishers"`
	Groups      []node `json:"groups"`
	Subscribers []node `json:"subscribers"`
	Links       []link `json:"links"`
	// Beyond is how many nodes of each kind are left out: publishers, groups, subscribers.
	Beyond [3]int `json:"beyond"`
}

type node struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Note  string `json:"note"` // where it is
	Total uint64 `json:"-"`
	State string `json:"state,omitempty"` // holds, released, publisher lost
}

// link goes from a publisher to a group or from there to a subscriber. Its counts are packets since the beginning.
type link struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Total   uint64  `json:"-"`
	Rate    float64 `json:"rate"` // packets a second
	Missing uint64  `json:"missing"`
	Lost    uint64  `json:"lost"` // permanently
	Gone    uint64  `json:"gone"` // messages that subscriptions lost permanently within the last minute, and what of the hour is one with them
	State   string  `json:"state,omitempty"`
	// Style is how it is drawn: flows, idle, missing or lost.
	Style string `json:"look"`
}

type carried struct {
	total, missing, lost uint64
	missingAt, lostAt    time.Time
}

const (
	missingShown = 5 * time.Second
	lostShown    = time.Minute
)

func (m *model) flow(p *picture, now time.Time, seconds float64) {
	links := make(map[[2]string]carried, len(p.Links))
	for i := range p.Links {
		l := &p.Links[i]
		key := [2]string{l.From, l.To}
		old, had := m.links[key]
		x := carried{l.Total, l.Missing, l.Lost, old.missingAt, old.lostAt}
		if had && seconds > 0 {
			l.Rate = float64(max(l.Total, old.total)-old.total) / seconds
			if l.Missing > old.missing {
				x.missingAt = now
			}
			if l.Lost > old.lost {
				x.lostAt = now
			}
		}
		links[key] = x
		l.Style = x.style(l, now)
	}
	m.links = links
}

func (x *carried) style(l *link, now time.Time) string {
	recently := func(at time.Time, within time.Duration) bool { return !at.IsZero() && now.Sub(at) < within }
	switch {
	case l.State == "released" || l.State == "not joined" || l.State == "loses" || l.State == losses.PublisherLost || l.State == losses.SendsNothing || recently(x.lostAt, lostShown):
		return "lost"
	case l.State == "holds" || l.State == "blocked" || recently(x.missingAt, missingShown):
		return "missing"
	case l.Rate > 0:
		return "flows"
	}
	return "idle"
}

const maxNodes = 12

type sketch struct {
	publishers, groups, subscribers map[string]*node
	links                           map[[2]string]*link
}

func (s *sketch) node(of map[string]*node, key, name, note string) *node {
	n := of[key]
	if n == nil {
		n = &node{Key: key, Name: name, Note: note}
		of[key] = n
	}
	n.Name, n.Note = cmp.Or(n.Name, name), cmp.Or(n.Note, note)
	return n
}

// group is a group of the network that a bus is on: that of one address on two interfaces is two.
func (s *sketch) group(b *inspect.Bus, address string) *node {
	on := strings.Join(b.Fabric.Interfaces, ", ")
	key := "g" + address
	if on != "" {
		key += " " + on
	}
	return s.node(s.groups, key, address, on)
}

func (s *sketch) link(from, to *node) *link {
	k := [2]string{from.Key, to.Key}
	if s.links[k] == nil {
		s.links[k] = &link{From: from.Key, To: to.Key}
	}
	return s.links[k]
}

func draw(seen []inspect.Seen, now time.Time) picture {
	s := &sketch{make(map[string]*node), make(map[string]*node), make(map[string]*node), make(map[[2]string]*link)}
	for p, b := range losses.Buses(seen) {
		s.bus(p, b, now)
	}
	return s.picture()
}

func (s *sketch) bus(of *inspect.Process, b *inspect.Bus, now time.Time) {
	// messages that were lost lately, by group; of many losses only sums are known, without one
	gone := make(map[string]uint64)
	for _, x := range losses.LostLately(b, now) {
		gone[x.Group] = inspect.Plus(gone[x.Group], x.Messages)
	}
	// What publishers call a bus that subscribes, as far as this host knows.
	name := cmp.Or(b.Name, fmt.Sprintf("%s/%d", of.Host, of.PID))
	for i := range b.Publications {
		p := &b.Publications[i]
		from, to := s.node(s.publishers, "p"+b.ID, cmp.Or(b.Name, b.ID), of.Name()), s.group(b, p.Address)
		l := s.link(from, to)
		l.Total = max(l.Total, p.Counters["packets_sent"])
		if p.Blocked != "" {
			l.State = "blocked"
		}
		if state := losses.PublicationState(p); state != "" {
			l.State = state
		}
		for _, m := range p.Subscribers {
			name := cmp.Or(m.Name, m.ID)
			x := s.node(s.subscribers, "s"+name, name, m.Address)
			l := s.link(to, x)
			switch {
			case m.Released:
				x.State, l.State = "released", "released"
			case m.Holds:
				x.State, l.State = "holds", "holds"
			}
		}
	}
	for i := range b.Groups {
		g := &b.Groups[i]
		if g.Topics == 0 && len(g.Streams) == 0 {
			continue
		}
		group, to := s.group(b, g.Address), s.node(s.subscribers, "s"+name, name, "")
		to.Note = of.Name()
		l := s.link(group, to)
		l.Total += g.Counters["packets"]
		l.Missing += g.Counters["missing"]
		l.Lost += g.Counters["lost"]
		for _, group := range slices.Compact([]string{"", g.Address}) {
			if n, ok := gone[group]; ok {
				l.Gone, l.State = inspect.Plus(l.Gone, n), "loses"
			}
		}
		if !g.Joined {
			l.State = "not joined"
		}
		up := make(map[string]bool) // ids: a publisher that was restarted is there
		for _, st := range g.Streams {
			if st.LostFor == 0 {
				up[st.Publisher] = true
			}
		}
		for _, st := range g.Streams {
			from := s.node(s.publishers, "p"+st.Publisher, cmp.Or(st.Name, st.Publisher), st.Address)
			l := s.link(from, group)
			l.Total = max(l.Total, st.Packets)
			if !up[st.Publisher] && !losses.Replaced(st.Name, st.LostFor, len(up) > 0) {
				from.State, l.State = losses.PublisherLost, losses.PublisherLost
			}
		}
	}
	for i := range b.Subscriptions {
		if h := losses.HearingOf(b, &b.Subscriptions[i]); h.Of != nil {
			if l := s.link(s.group(b, h.Of.Group), s.node(s.subscribers, "s"+name, name, of.Name())); l.State == "" {
				l.State = losses.PublisherLost
			}
		}
	}
}

func (s *sketch) picture() (p picture) {
	for _, l := range s.links {
		for _, of := range []map[string]*node{s.publishers, s.groups, s.subscribers} {
			for _, key := range []string{l.From, l.To} {
				if n := of[key]; n != nil {
					n.Total += l.Total
				}
			}
		}
	}
	shown := make(map[string]bool)
	largest := func(of map[string]*node, beyond *int) []node {
		all := make([]node, 0, len(of))
		for _, n := range of {
			all = append(all, *n)
		}
		slices.SortFunc(all, func(a, b node) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Key, b.Key)) })
		*beyond = max(0, len(all)-maxNodes)
		all = all[:len(all)-*beyond]
		slices.SortFunc(all, func(a, b node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
		for _, n := range all {
			shown[n.Key] = true
		}
		return all
	}
	p.Publishers, p.Groups, p.Subscribers = largest(s.publishers, &p.Beyond[0]), largest(s.groups, &p.Beyond[1]),
		largest(s.subscribers, &p.Beyond[2])
	p.Links = []link{}
	for _, l := range s.links {
		if shown[l.From] && shown[l.To] {
			p.Links = append(p.Links, *l)
		}
	}
	slices.SortFunc(p.Links, func(a, b link) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return p
}
