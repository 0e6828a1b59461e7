package doctor

import (
	"strings"

	"github.com/fanfaremq/fanfare/internal/plural"
)

type Bus struct {
	Process string   // the name that people know
	Name    string   // empty: it has none
	URLs    []string // one a leg; empty: of a transport of the program's own
	Open    bool     // its groups are not sealed, and on a network
}

const openListed = 10

const (
	openMeans = "any host on the network can read, forge and change all messages"
	openFix   = "fanfare key new FILE, and keys=FILE in the URL of every bus"
)

// security says which groups are open: all without keys, and of running processes, which.
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
			c.add("security", Info, openFix, "%s: its groups are open: %s", b, openMeans)
		}
		open++
	}
	for _, s := range c.Silent {
		c.add("security", Info, "", "whether the groups of a process are open is not known: %s", s)
	}
	switch {
	case len(c.Buses) == 0:
		c.add("security", Info, openFix, "groups are open but to buses with keys= in their URL: %s", openMeans)
	case more > 0:
		c.add("security", Info, "fanfare top -once -json", "the groups of %s more of this host are open", plural.N(more, "bus"))
	case open == 0:
		c.add("security", OK, "", "%s on this host, and no groups are open: they are sealed, or no network carries them", plural.N(len(c.Buses), "bus"))
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
