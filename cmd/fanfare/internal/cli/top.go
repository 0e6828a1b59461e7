package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub"
)

type topRun struct {
	looked
	o    top.Options
	once bool
	json bool
}

func (t *topRun) run(ctx context.Context, e *env) error {
	read, closeIt, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer closeIt()
	t.o.Read = read
	if t.once || t.json {
		return t.write(ctx, e)
	}
	_, in := terminal(e.stdin)
	_, out := terminal(e.stdout)
	if !in || !out {
		return usagef("standard input and output are no terminal: use -once, or -json")
	}
	return top.Run(ctx, e.stdin, e.stdout, t.o)
}

const placeAdvice = "a place is the socket of a process, or a directory with some; for other hosts see their metrics in Prometheus, or run the command there by ssh"

// placesExist says which place cannot be asked, or that no process can be. All commands that ask begin with it.
func placesExist(places []string) error {
	_, err := inspect.List(places...)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("no socket to ask at: %w: %s", err, placeAdvice)
	}
	if err != nil && len(places) > 0 {
		return usagef("no socket to ask at: %w", err)
	}
	return err
}

// listenFirst is how long -once listens before it looks: publishers that are idle are heard once a second.
const listenFirst = 2500 * time.Millisecond

func (t *topRun) write(ctx context.Context, e *env) error {
	if t.once && len(t.urls) > 0 {
		if err := sleep(ctx, listenFirst); err != nil {
			return err
		}
	}
	before, err := t.o.Observe(ctx)
	if err != nil {
		return err
	}
	for {
		if len(before.Seen) == 0 && t.once {
			break // there are no rates to wait for
		}
		if err := sleep(ctx, t.o.Interval); err != nil {
			return err
		}
		now, err := t.o.Observe(ctx)
		if err != nil {
			return err
		}
		f := top.Between(before, now)
		if t.json {
			err = newJSONLines(e.stdout).write(f)
		} else if f.Total.Processes > 0 {
			err = top.Write(e.stdout, f, t.o.View, t.o.Filter, columnsOf(e.stdout))
		}
		if before = now; err != nil {
			return err
		}
		if t.once && len(now.Seen) > 0 {
			return unanswered(f.Failed)
		}
	}
	return errors.New(top.NoProcess(t.o.Where()))
}

func columnsOf(w any) int {
	if fd, ok := terminal(w); ok {
		if columns, _, err := term.GetSize(fd); err == nil && columns > 20 {
			return columns
		}
	}
	return 200
}

func topCommand() command {
	return command{
		name:    "top",
		summary: "watch the buses of this host: rates, losses, slow readers",
		usage:   "fanfare top [flags] [PLACE...]",
		about: `It asks every process of yours on this host that has a bus, at its socket, what it
publishes and subscribes to, and shows rates, losses by their causes, repairs, slow
readers and for how long, groups, socket buffers, legs and events. Without -t nothing
is sent, and no process waits for it. As root it shows the processes of all users.

` + placeHelp + `
With -t it listens to a fabric, too, and shows publishers there that were not asked.`,
		notes: `Keys: Tab and 1 to 8 change the view, the arrows choose a row and Enter says all
about it, s sorts by the next column and r the other way round, / filters, p pauses,
? lists all keys, q quits. ! marks what is to be looked at. There is no colour where
NO_COLOR is set.

With -json it writes one object for each interval, with -once only one:
{"type":"top","total":{...},"buses":[...],"topics":[...],"subscriptions":[...],
"streams":[...],"subscribers":[...],"groups":[...],"losses":[...],"legs":[...],
"events":[...]}. Rates are of the interval, counters since a bus was opened.
docs/operate/inspect.md says what the figures mean.`,
		examples: `fanfare top
fanfare top -view subscribers
fanfare top -once
fanfare top -t udp://239.20.0.0/16?iface=eth0
fanfare top -once -json`,
		exitNotes: `It is 1 with -once when there is no process to look at, or when one did not answer.`,
		flags:     flagsOf(func() *topRun { return new(topRun) }),
	}
}

func (t *topRun) register(fs *flagSet) {
	t.registerWire(fs)
	atLeast(durationVar(fs, &t.o.Interval, "interval", time.Second, "look every D, 200ms at least"), leastInterval)
	choiceVar(fs, &t.o.View, "view", "the view to begin with; with -once the only one", append([]word{{text: allViews}}, plainWords(top.Views()...)...)...)
	stringVar(fs, &t.o.Filter, "filter", "", "show only rows with `TEXT`")
	boolVar(fs, &t.once, "once", "write the figures of one interval, and end")
	boolVar(fs, &t.json, "json", "figures as JSON on standard output, a line an interval")
}

func (t *topRun) check(_ *flagSet, operands []string) error {
	if t.json && (t.o.View != allViews || t.o.Filter != "") {
		return usagef("-view and -filter choose what is shown, and -json has all: leave them out, and choose with jq, say")
	}
	t.places, t.o.Places = operands, operands
	if t.o.View == allViews {
		t.o.View = ""
	}
	return nil
}

const allViews = "all" // the word for all of them; on a terminal the first is shown

const leastInterval = 200 * time.Millisecond

// looked is where top and web look: at processes of this host, and on the wire.
type looked struct {
	places []string // sockets and directories; empty: all processes of this user
	urls   []string // of what is listened to, one a leg; empty: nothing is
}

const placeHelp = `PLACE is the socket of a process, or a directory with some. Without it all of yours on
this host are asked, and by root those of all users.
`

func (l *looked) registerWire(fs *flagSet) {
	urlsVar(fs, &l.urls, "t", nil, "listen to the fabric with this `URL`, too, and show the publishers that are heard there and were not asked, with the rates of their topics: "+
		"it asks them for the names of their topics, as ls does. Given more than once, each is a leg")
}

func (l *looked) open(ctx context.Context) (read func(context.Context) ([]inspect.Seen, error),
	closeIt func(), err error) {
	if err := placesExist(l.places); err != nil {
		return nil, nil, err
	}
	ask := func(ctx context.Context) ([]inspect.Seen, error) { return inspect.ReadAll(ctx, l.places...) }
	if len(l.urls) == 0 {
		return ask, func() {}, nil
	}
	// It has no socket for other commands, and its log would be in the way of what is shown.
	bus, err := pubsub.Config{Inspect: pubsub.InspectOff, Logger: slog.New(slog.DiscardHandler)}.Open(ctx,
		l.urls[0], l.urls[1:]...)
	if err != nil {
		return nil, nil, &usageError{err}
	}
	survey, err := bus.Survey()
	if err != nil {
		bus.Close()
		return nil, nil, err
	}
	began, of := time.Now(), strings.Join(l.urls, " ")
	read = func(ctx context.Context) ([]inspect.Seen, error) {
		seen, err := ask(ctx)
		if err != nil && len(l.places) == 0 && errors.Is(err, inspect.ErrOff) {
			err = nil // the wire can be looked at all the same
		}
		if err != nil {
			return seen, err
		}
		heard, err := survey.Topics()
		if err != nil {
			return append(seen, inspect.Seen{Socket: of, Err: err}), nil
		}
		return append(seen, overheard(heard, seen, l.urls, began, time.Now())...), nil
	}
	return read, func() { survey.Close(); bus.Close() }, nil
}

type publisherKey struct {
	id    string
	epoch uint64
}

// overheard is what was heard, as if each publisher that has not been asked itself had said it.
func overheard(heard *pubsub.TopicList, seen []inspect.Seen, urls []string, began, now time.Time) (all []inspect.Seen) {
	asked, interfaces := make(map[publisherKey]bool), make(map[string][]string)
	for _, b := range losses.Buses(seen) {
		asked[publisherKey{b.ID, b.Epoch}] = true
		on := func(group string) {
			if interfaces[group] == nil {
				interfaces[group] = b.Fabric.Interfaces
			}
		}
		for _, g := range b.Groups {
			on(g.Address)
		}
		for _, p := range b.Publications {
			on(p.Address)
		}
	}
	of := make(map[publisherKey]*inspect.Bus)
	var buses []*inspect.Bus // in the order of all
	for i := range heard.Topics {
		t := &heard.Topics[i]
		for _, p := range t.Publishers {
			k := publisherKey{p.ID.String(), p.Epoch}
			if asked[k] {
				continue
			}
			b := of[k]
			if b == nil {
				b = &inspect.Bus{
					Identity: inspect.Identity{ID: k.id, Epoch: k.epoch, Name: p.Name, ShownAs: cmp.Or(p.Name, k.id),
						URLs: urls, Since: began},
					Fabric: inspect.Fabric{Interfaces: interfaces[t.GroupAddress]},
				}
				of[k], buses = b, append(buses, b)
				all = append(all, inspect.Seen{Socket: cmp.Or(p.Address, k.id), Snapshot: &inspect.Snapshot{
					Version: inspect.Version, Time: now, Process: inspect.Process{Program: cmp.Or(p.Address, "an unknown address"), Started: began},
				}})
			}
			b.Topics = append(b.Topics, inspect.Topic{Name: t.Name, Group: t.GroupAddress, Messages: p.Messages})
			addMessages(b, t.GroupAddress, p.Messages)
		}
	}
	for i, b := range buses {
		slices.SortStableFunc(b.Topics, func(x, y inspect.Topic) int { return cmp.Compare(y.Messages, x.Messages) })
		if n := len(b.Topics) - inspect.MaxTopics; n > 0 {
			b.Topics, b.TopicsLeftOut = b.Topics[:inspect.MaxTopics], n
		}
		all[i].Snapshot.Buses = []inspect.Bus{*b}
	}
	if heard.Err != nil {
		all = append(all, inspect.Seen{Socket: strings.Join(urls, " "), Err: heard.Err})
	}
	return all
}

func addMessages(b *inspect.Bus, group string, n uint64) {
	for i := range b.Publications {
		if p := &b.Publications[i]; p.Address == group {
			p.Counters["messages_sent"] += n
			return
		}
	}
	b.Publications = append(b.Publications, inspect.Publication{Address: group, Counters: inspect.Counters{"messages_sent": n}})
}
