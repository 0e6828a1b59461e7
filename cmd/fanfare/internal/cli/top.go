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
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type topRun struct {
	target
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
		return usagef("standard input or output is not a terminal: use -once or -json")
	}
	return top.Run(ctx, e.stdin, e.stdout, t.o)
}

const placeAdvice = "a PLACE is the socket of a process, or a directory of sockets; for other hosts see their metrics in Prometheus, or run the command there with ssh"

// placesExist returns an error for a place without sockets, or if no process can be asked. All commands that ask
// processes call it first.
func placesExist(places []string) error {
	_, err := inspect.List(places...)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("no socket found: %w: %s", err, placeAdvice)
	}
	if err != nil && len(places) > 0 {
		return usagef("no socket found: %w", err)
	}
	return err
}

// listenFirst is how long -once listens before it reads: idle publishers send once a second.
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
			break // JSON of one interval without rates
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
		about: `It reads what the processes of this host publish and subscribe to, through their
sockets, and shows rates, losses by cause, repairs, slow readers and for how long,
groups, socket buffers, legs and events. Without -t it sends nothing, and no process
waits for it.

` + placeHelp + `
With -t it also listens to a fabric, and shows publishers that run on other hosts.`,
		notes: `Keys: Tab and 1 to 8 change the view, the arrows select a row and Enter shows its
details, s sorts by the next column and r reverses the order, / filters, p pauses,
? lists all keys, q quits. ! marks what needs attention. Colours are off if NO_COLOR
is set.

With -json it writes one object for each interval, with -once only one:
{"type":"top","total":{...},"buses":[...],"topics":[...],"subscriptions":[...],
"streams":[...],"subscribers":[...],"groups":[...],"losses":[...],"legs":[...],
"events":[...]}. Rates are of the interval, counters count since a bus was opened.
docs/operate/inspect.md explains the figures.`,
		examples: `fanfare top
fanfare top -view subscribers
fanfare top -once
fanfare top -t udp://239.20.0.0/16?iface=eth0
fanfare top -once -json`,
		exitNotes: `With -once it is 1 when there is no process to read, or when one did not answer.`,
		flags:     flagsOf(func() *topRun { return new(topRun) }),
	}
}

func (t *topRun) register(fs *flagSet) {
	t.registerWire(fs)
	atLeast(durationVar(fs, &t.o.Interval, "interval", time.Second, "read every D, at least 200ms"), minInterval)
	choiceVar(fs, &t.o.View, "view", "the first view; with -once the only one", append([]word{{text: allViews}}, plainWords(top.Views()...)...)...)
	stringVar(fs, &t.o.Filter, "filter", "", "show only rows with `TEXT`")
	boolVar(fs, &t.once, "once", "print the figures of one interval, and end")
	boolVar(fs, &t.json, "json", "print the figures as JSON, one object an interval")
}

func (t *topRun) check(_ *flagSet, operands []string) error {
	if t.json && (t.o.View != allViews || t.o.Filter != "") {
		return usagef("-view and -filter select what is shown, and -json prints everything: leave them out, and select with jq")
	}
	t.places, t.o.Places = operands, operands
	if t.o.View == allViews {
		t.o.View = ""
	}
	return nil
}

const allViews = "all" // the word for all views; on a terminal the first is shown

const minInterval = 200 * time.Millisecond

// target is what top and web show: processes of this host, and publishers on the network.
type target struct {
	places []string // sockets and directories; empty: all processes of this user
	urls   []string // to listen to, one for each leg; empty: none
}

const placeHelp = `PLACE is the socket of a process, or a directory of sockets. Without PLACE all your
processes on this host are read; root reads those of all users.
`

func (l *target) registerWire(fs *flagSet) {
	urlsVar(fs, &l.urls, "t", nil, "also listen to the fabric with this `URL`, and show the publishers there that have no socket here, with the rates of their topics. "+
		"It asks them for the names of their topics, as ls does. If given several times, each is a leg")
}

func (l *target) open(ctx context.Context) (read func(context.Context) ([]inspect.Seen, error),
	closeIt func(), err error) {
	if err := placesExist(l.places); err != nil {
		return nil, nil, err
	}
	readAll := func(ctx context.Context) ([]inspect.Seen, error) { return inspect.ReadAll(ctx, l.places...) }
	if len(l.urls) == 0 {
		return readAll, func() {}, nil
	}
	// This bus has no socket for other commands, and no log, which would disturb the screen.
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
		seen, err := readAll(ctx)
		if err != nil && len(l.places) == 0 && errors.Is(err, inspect.ErrOff) {
			err = nil // without processes the network can still be shown
		}
		if err != nil {
			return seen, err
		}
		list, err := survey.Topics()
		if err != nil {
			return append(seen, inspect.Seen{Socket: of, Err: err}), nil
		}
		return append(seen, networkOnly(list, seen, l.urls, began, time.Now())...), nil
	}
	return read, func() { survey.Close(); bus.Close() }, nil
}

type publisherKey struct {
	id    string
	epoch events.ID
}

// networkOnly converts the publishers on the network that no asked process has to the form of asked processes.
func networkOnly(list *pubsub.TopicList, seen []inspect.Seen, urls []string, from, now time.Time) (all []inspect.Seen) {
	listed, interfaces := make(map[publisherKey]bool), make(map[string][]string)
	for _, b := range losses.Buses(seen) {
		listed[publisherKey{b.ID, b.Epoch}] = true
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
	for i := range list.Topics {
		t := &list.Topics[i]
		for _, p := range t.Publishers {
			k := publisherKey{p.ID.String(), p.Epoch}
			if listed[k] {
				continue
			}
			b := of[k]
			if b == nil {
				b = &inspect.Bus{
					Identity: inspect.Identity{ID: k.id, Epoch: k.epoch, Name: p.Name, ShownAs: cmp.Or(p.Name, k.id),
						URLs: urls, Since: from},
					Fabric: inspect.Fabric{Interfaces: interfaces[t.GroupAddress]},
				}
				of[k], buses = b, append(buses, b)
				all = append(all, inspect.Seen{Socket: cmp.Or(p.Address, k.id), Snapshot: &inspect.Snapshot{
					Version: inspect.Version, Time: now, Process: inspect.Process{Program: cmp.Or(p.Address, "an unknown address"), Started: from},
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
	if list.Err != nil {
		all = append(all, inspect.Seen{Socket: strings.Join(urls, " "), Err: list.Err})
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
