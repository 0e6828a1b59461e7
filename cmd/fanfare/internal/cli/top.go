package cli

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/term"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
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

// placeAdvice is the end of the error where an operand is no place.
const placeAdvice = "a place is the socket of a process, or a directory with some; for other hosts see their metrics in Prometheus, or run the command there by ssh"

// placesExist says which place that was given cannot be asked, or that no process can be.
// All commands that ask begin with it.
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

// listenFirst is how long -once listens before it looks: who has nothing to say is heard once a
// second, and tells its topics then.
const listenFirst = 2500 * time.Millisecond

// write writes figures as text or JSON, once or for each interval.
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

// columnsOf is how wide a terminal is; what is none is as wide as may be.
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
		summary: "watch the buses of this host: rates, losses, who is slow",
		usage:   "fanfare top [flags] [PLACE...]",
		about: `It asks every process of yours on this host that has a bus, at its socket, what it
publishes and subscribes to, and shows rates, losses by their causes, repairs, who is
slow and for how long, groups, socket buffers, legs and events. Without -t nothing is
sent, and no process waits for it. As root it shows the processes of all users.

` + placeHelp + `
With -t it listens to a fabric, too, and shows who publishes there and was not asked.`,
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

// allViews is the word for all of them; on a terminal the first is shown.
const allViews = "all"

const leastInterval = 200 * time.Millisecond
