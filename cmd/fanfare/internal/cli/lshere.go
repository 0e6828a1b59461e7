package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/pattern"
)

// What ls says of the processes of this host, which it asks at their sockets.

type jsonProcess struct {
	Type    string    `json:"type"` // "process"
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Host    string    `json:"host"`
	Fanfare string    `json:"fanfare"`
	Socket  string    `json:"socket"`
	Buses   []jsonBus `json:"buses"`
	Error   string    `json:"error,omitempty"` // why it did not answer
}

type jsonBus struct {
	ID         string             `json:"id"`
	Name       string             `json:"name"`
	URLs       []string           `json:"urls"`
	Publishes  []jsonPublished    `json:"publishes"`
	Subscribes []jsonSubscription `json:"subscribes"`
	Incomplete string             `json:"incomplete,omitempty"` // why something may be missing
	LeftOut    int                `json:"left_out,omitempty"`   // topics and subscriptions that are not listed, for there are too many
}

type jsonPublished struct {
	Topic       string `json:"topic"`
	Group       string `json:"group"`
	Messages    uint64 `json:"messages"`
	Subscribers int    `json:"subscribers"`
}

type jsonSubscription struct {
	Topics   []string `json:"topics"`
	Messages uint64   `json:"messages"`
	Lost     uint64   `json:"lost"` // messages, as far as known
	Pending  int      `json:"pending"`
}

// here asks the processes of this host, but for this one.
func (l *ls) here(ctx context.Context) ([]jsonProcess, error) {
	seen, err := readAll(ctx, l.sockets...)
	if err != nil {
		return nil, err
	}
	var all []jsonProcess
	for i := range seen {
		x := &seen[i]
		switch {
		case x.Err != nil:
			f := top.Failed{Socket: x.Socket, Error: losses.Unanswered(x.Err)}
			l.failed = append(l.failed, f)
			all = append(all, jsonProcess{Type: "process", Socket: f.Socket, Buses: []jsonBus{}, Error: f.Error})
		case x.Snapshot.Process.PID != os.Getpid():
			if p := l.process(x); len(p.Buses) > 0 {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// process is what is shown of a process: its buses with something that a pattern matches.
func (l *ls) process(x *inspect.Seen) jsonProcess {
	s := x.Snapshot
	p := jsonProcess{Type: "process", PID: s.Process.PID, Program: s.Process.Program, Host: s.Process.Host, Fanfare: s.Process.Fanfare, Socket: x.Socket}
	for i := range s.Buses {
		b := &s.Buses[i]
		out := jsonBus{ID: b.ID, Name: b.Name, URLs: b.URLs, Publishes: []jsonPublished{}, Subscribes: []jsonSubscription{}, Incomplete: b.Incomplete, LeftOut: b.TopicsLeftOut + b.SubscriptionsLeftOut}
		for _, t := range b.Topics {
			if l.matches(t.Name) {
				out.Publishes = append(out.Publishes, jsonPublished{t.Name, t.Group, t.Messages, t.Subscribers})
			}
		}
		for _, sub := range b.Subscriptions {
			if !slices.ContainsFunc(sub.Topics, l.matches) {
				continue
			}
			y := jsonSubscription{Topics: sub.Topics, Messages: sub.Messages, Pending: sub.Pending}
			for _, c := range sub.Lost {
				y.Lost += c.Messages
			}
			out.Subscribes = append(out.Subscribes, y)
		}
		if len(out.Publishes)+len(out.Subscribes) > 0 || slices.Contains(l.patterns, ">") {
			p.Buses = append(p.Buses, out)
		}
	}
	return p
}

func (l *ls) matches(topic string) bool {
	of, err := pattern.Parse(topic)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(l.patterns, func(text string) bool {
		p, err := pattern.Parse(text)
		return err == nil && p.Overlaps(of)
	})
}

// unanswered is how a command ends that has asked processes, of which these have not answered.
func unanswered(failed []top.Failed) error {
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %s", failed[0].Socket, failed[0].Error)
	}
	return fmt.Errorf("%s did not answer, the first at %s: %s", count(len(failed), "process"), failed[0].Socket, failed[0].Error)
}

func (l *ls) showHere(all []jsonProcess) error {
	if l.json {
		lines := newJSONLines(l.e.stdout)
		for i := range all {
			if err := lines.write(&all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range all {
		for _, b := range p.Buses {
			if b.LeftOut > 0 && !l.quiet {
				l.e.console.line("bus %s of %s: %s with fewer messages are not listed, for there are too many", cmp.Or(b.Name, b.ID), p.Program, count(b.LeftOut, "topic"))
			}
		}
	}
	return hereTable(l.e.stdout, all)
}

func hereTable(w io.Writer, all []jsonProcess) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := false
	row := func(p *jsonProcess, b *jsonBus, does, topic string, messages uint64, peers string) {
		if !header {
			fmt.Fprintln(tab, "PROCESS\tBUS\tDOES\tTOPIC\tMESSAGES\tSUBSCRIBERS\tFABRIC")
			header = true
		}
		id := inspect.Process{PID: p.PID, Program: p.Program}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printable(id.Name()), printable(cmp.Or(b.Name, b.ID)), does, printable(topic), messages, peers, printable(strings.Join(b.URLs, " ")))
	}
	for i := range all {
		p := &all[i]
		for j := range p.Buses {
			b := &p.Buses[j]
			for _, t := range b.Publishes {
				row(p, b, "publishes", t.Topic, t.Messages, fmt.Sprint(t.Subscribers))
			}
			for _, s := range b.Subscribes {
				row(p, b, "subscribes", strings.Join(s.Topics, " "), s.Messages, "-")
			}
			if len(b.Publishes)+len(b.Subscribes) == 0 {
				row(p, b, "-", "-", 0, "-")
			}
		}
	}
	return tab.Flush()
}
