package cli

import (
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
)

func topCommand() command {
	return command{
		name:    "top",
		summary: "watch the buses of this host: rates, losses, who is slow",
		usage:   []string{"fanfare top [flags] [PLACE...]"},
		about: `It asks every process of yours on this host that has a bus, at its socket, what it
publishes and subscribes to, and shows rates, losses by their causes, repairs, who is
slow and for how long, groups, socket buffers, legs and events. Without -t nothing is
sent, and no process waits for it. As root it shows the processes of all users.

` + placeHelp + `
With -t it listens to a fabric, too, and shows who publishes there and was not asked.
`,
		notes: `Keys: Tab and 1 to 8 change the view, the arrows choose a row and Enter says all
about it, s sorts by the next column and r the other way round, / filters, p pauses,
? lists all keys, q quits. ! marks what is to be looked at. There is no colour where
NO_COLOR is set.

With -json it writes one object for each interval, with -once only one:
{"type":"top","total":{...},"buses":[...],"topics":[...],"subscriptions":[...],
"streams":[...],"subscribers":[...],"groups":[...],"losses":[...],"legs":[...],
"events":[...]}. Rates are of the interval, counters since a bus was opened.
docs/operate/inspect.md says what the figures mean.
`,
		examples: []string{
			"fanfare top",
			"fanfare top -view subscribers",
			"fanfare top -once",
			"fanfare top -t udp://239.20.0.0/16?iface=eth0",
			"fanfare top -once -json",
		},
		exitNotes: `It is 1 with -once when there is no process to look at, or when one did not answer.
`,
		flags: flagsOf(func() *topRun { return new(topRun) }),
	}
}

func (t *topRun) register(fs *flagSet) {
	t.registerWire(fs)
	durationVar(fs, &t.o.Interval, "interval", time.Second, "look every D, 200ms at least")
	choiceVar(fs, &t.o.View, "view", "the view to begin with; with -once the only one", append([]word{{text: allViews}}, plainWords(top.Views()...)...)...)
	stringVar(fs, &t.o.Filter, "filter", "", "show only rows with `TEXT`")
	boolVar(fs, &t.once, "once", "write the figures of one interval, and end")
	boolVar(fs, &t.json, "json", "figures as JSON on standard output, a line an interval")
}

func (t *topRun) check(_ *flagSet, operands []string) error {
	if t.o.Interval < leastInterval {
		return usagef("-interval %v must be %v or more", t.o.Interval, leastInterval)
	}
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
