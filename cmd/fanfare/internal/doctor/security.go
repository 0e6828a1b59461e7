package doctor

import (
	"strings"

	"github.com/fanfaremq/fanfare/internal/plural"
)

type Bus struct {
	Process string   // for display
	Name    string   // may be empty
	URLs    []string // one for each leg; empty: the program's own transport
	Open    bool     // its groups are on a network and not sealed
}

const openListed = 10

const (
	openMeans = "any host on the network can read, forge and change all messages"
	openFix   = "fanfare key new FILE   # and add keys=FILE to the URL of every bus"
)

// security reports unsealed groups: of running processes, or in general without keys=.
func (c *check) security() {
	open, more := 0, 0
	for i := range c.Buses {
		b := &c.Buses[i]
		switch {
		case !b.Open:
			continue
		case open >= openListed:
			more++
		default:
			c.add("security", Info, openFix, "%s: its groups are not sealed: %s", b, openMeans)
		}
		open++
	}
	for _, s := range c.Silent {
		c.add("security", Info, "", "it is unknown whether the groups of a process are sealed: %s", s)
	}
	switch {
	case len(c.Buses) == 0:
		c.add("security", Info, openFix, "groups are not sealed unless buses have keys= in their URL: %s", openMeans)
	case more > 0:
		c.add("security", Info, "fanfare top -once -json", "the groups of %s more on this host are not sealed", plural.N(more, "bus"))
	case open == 0:
		c.add("security", OK, "", "%s on this host, none with unsealed groups on a network", plural.N(len(c.Buses), "bus"))
	}
}

func (b *Bus) String() string {
	s := b.Process
	if b.Name != "" {
		s += " (" + b.Name + ")"
	}
	if len(b.URLs) > 0 {
		s += " on " + strings.Join(b.URLs, ", ")
	}
	return s
}
