package losses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/pattern"
)

// Undetected is a bus that publishes but has never detected a subscriber on its interface, or
// subscribes and has detected no publisher. That may be intended. If another bus of this host has
// the other side of the same topics on another interface, it is most likely a mistake.
type Undetected struct {
	BusKey
	Process, Bus string
	Publishes    bool // otherwise it subscribes
	Topics       []string
	Interface    string
	For          time.Duration
	// OtherProcess is the bus and process on OtherInterface; empty: none.
	OtherProcess, OtherInterface string
}

func FindUndetected(seen []inspect.Seen) (all []Undetected) {
	s := &sides{seen, make(map[sideKey][]pattern.Pattern), maxCompared}
	for p, b := range Buses(seen) {
		for _, publishes := range []bool{true, false} {
			silent := b.NoPublisher
			if publishes {
				silent = b.NoSubscriber
			}
			if silent == 0 {
				continue
			}
			u := Undetected{
				BusKey: KeyOf(p, b), Process: p.Name(), Bus: cmp.Or(b.Name, b.ID), Publishes: publishes,
				Topics: topicsOf(b, publishes), Interface: interfaceOf(b), For: seconds(silent),
			}
			s.findOther(&u, b)
			all = append(all, u)
		}
	}
	return all
}

// maxCompared bounds the comparisons of groups and patterns, to about 0.1 s: processes may report thousands of buses.
const maxCompared = 1 << 20

type sides struct {
	seen     []inspect.Seen
	patterns map[sideKey][]pattern.Pattern // parsed patterns
	left     int                           // remaining comparisons
}

type sideKey struct {
	bus       *inspect.Bus
	publishes bool
}

func (l *sides) findOther(u *Undetected, b *inspect.Bus) {
	groups := make(map[string]bool)
	addresses(b, u.Publishes, func(address string) bool { groups[address] = true; return false })
	for p, x := range Buses(l.seen) {
		on := interfaceOf(x)
		if p.Heard() || on == "" || on == u.Interface || !addresses(x, !u.Publishes, func(address string) bool { l.left--; return groups[address] }) {
			continue
		}
		if l.overlap(sideKey{b, u.Publishes}, sideKey{x, !u.Publishes}) {
			u.OtherProcess, u.OtherInterface = fmt.Sprintf("%s in %s", cmp.Or(x.Name, x.ID), p.Name()), on
			return
		}
		if l.left < 0 {
			return
		}
	}
}

func interfaceOf(b *inspect.Bus) string { return strings.Join(b.Fabric.Interfaces, ", ") }

func topicsOf(b *inspect.Bus, publishes bool) (names []string) {
	if publishes {
		for _, t := range b.Topics {
			names = append(names, t.Name)
		}
		return names
	}
	for _, s := range b.Subscriptions {
		names = append(names, s.Topics...)
	}
	return names
}

// addresses reports whether match is true for a group that the bus publishes to or has subscribed to.
func addresses(b *inspect.Bus, publishes bool, match func(address string) bool) bool {
	if publishes {
		return slices.ContainsFunc(b.Publications, func(p inspect.Publication) bool { return match(p.Address) })
	}
	return slices.ContainsFunc(b.Groups, func(g inspect.Group) bool { return match(g.Address) })
}

func (l *sides) overlap(a, b sideKey) bool {
	return slices.ContainsFunc(l.of(a), func(p pattern.Pattern) bool {
		return slices.ContainsFunc(l.of(b), func(q pattern.Pattern) bool {
			l.left--
			return l.left >= 0 && p.Overlaps(q)
		})
	})
}

func (l *sides) of(k sideKey) []pattern.Pattern {
	all, ok := l.patterns[k]
	if !ok {
		for _, text := range topicsOf(k.bus, k.publishes) {
			if p, err := pattern.Parse(text); err == nil {
				all = append(all, p)
			}
		}
		l.patterns[k] = all
	}
	return all
}

func (u *Undetected) side() string {
	if u.Publishes {
		return "subscriber"
	}
	return "publisher"
}

func (u *Undetected) Text() string {
	names := andMore(strings.Join(u.Topics[:min(len(u.Topics), topicsListed)], ", "), len(u.Topics)-topicsListed)
	text := fmt.Sprintf("no %s of %s was detected on %s for %s", u.side(), names, u.Interface, span(u.For))
	if u.OtherProcess != "" {
		does := strings.TrimSuffix(u.side(), "er") + "es"
		text += fmt.Sprintf("; %s %s on %s: the two cannot reach each other", u.OtherProcess, does, u.OtherInterface)
	}
	return text
}

func (u *Undetected) Do() string {
	switch {
	case strings.HasPrefix(u.Interface, "/"): // memory, by its directory, which other users do not share
		return fmt.Sprintf("Nothing if no %s exists yet. If another user runs it, use the same group= in both URLs; a container must mount %s of this host.", u.side(), u.Interface)
	case u.OtherProcess != "":
		return fmt.Sprintf("Use the same interface on both sides: iface=%s or iface=%s in the URLs of %s and of %s.", u.Interface, u.OtherInterface, u.Process, u.OtherProcess)
	}
	return fmt.Sprintf("Nothing if no %s exists yet. Otherwise check that it is on the network of %s (iface= in both URLs), and run fanfare doctor -peer on both hosts.", u.side(), u.Interface)
}

func (r *Report) undetected(seen []inspect.Seen) {
	for _, u := range FindUndetected(seen) {
		r.Findings = append(r.Findings, Finding{
			Kind: Hint, Cause: "no_" + u.side() + "_heard", First: r.To.Add(-u.For), Last: r.To, Process: u.Process, Bus: u.Bus,
			Topics: u.Topics[:min(len(u.Topics), topicsListed)], OtherTopics: max(0, len(u.Topics)-topicsListed), For: u.For.Seconds(), Why: strings.ToUpper(u.Text()[:1]) + u.Text()[1:] + ".", Do: u.Do(),
		})
	}
}
