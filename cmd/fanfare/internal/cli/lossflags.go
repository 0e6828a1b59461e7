package cli

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/lossrecord"
)

// exitLost is the exit code of loss when messages were lost for good.
const exitLost = 3

func lossCommand() command {
	return command{
		name:    "loss",
		summary: "say what was lost on this host, when, why, and what to do about it",
		usage:   []string{"fanfare loss [flags] [PLACE...]"},
		about: `It asks the processes of this host that use Fanfare what they have lost in the
last hour: each loss with its time, topic, publisher, subscription and cause, and
what mends it. What was dropped on the way and repaired is told too. Each process
keeps that by itself, so nothing need run beforehand.

` + placeHelp,
		notes: `A process that is stopped, or has ended, cannot say what it has
lost: its publishers say that it is not waited for any more. Nothing is kept on
disk: what a process that has ended has lost is in its log.

With -json each finding is an object {"type":"lost"|"event"|"dropped","cause":...,
"first":...,"last":...,"process":...,"do":...}; the last object is the summary.
`,
		examples: []string{
			"fanfare loss",
			"fanfare loss -since 5m",
			"fanfare loss -follow",
			"fanfare loss -json | jq -r 'select(.type == \"lost\") | .do'",
		},
		exits: []word{{"3", "messages were lost for good, or packets, of which no subscription was told yet"}},
		exitNotes: `It is 0 when nothing was lost for good, and 1 when no process could be looked at,
or not all of them.
`,
		flags: flagsOf(func() *loss { return new(loss) }),
	}
}

func (l *loss) register(fs *flagSet) {
	durationVar(fs, &l.since, "since", lossrecord.Kept, "only what was lost in the last D (such as 30s, 5m), an hour at most")
	boolVar(fs, &l.follow, "follow", "go on, and tell what is lost as it happens, until interrupted")
	boolVar(fs, &l.json, "json", "findings as JSON objects on standard output, the last a summary")
	boolVar(fs, &l.quiet, "q", "only what was lost for good on standard output")
}

func (l *loss) check(_ *flagSet, operands []string) error {
	if l.since <= 0 || l.since > lossrecord.Kept {
		return usagef("-since %v must be a time above zero and at most %v, for which processes remember", l.since, time.Duration(lossrecord.Kept))
	}
	l.sockets = operands
	return nil
}
