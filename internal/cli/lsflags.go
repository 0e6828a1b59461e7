package cli

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

func lsCommand() command {
	return command{
		name:    "ls",
		summary: "list the topics that are published, by whom and how fast",
		usage:   []string{"fanfare ls [flags] [PATTERN...]"},
		about: `It listens for some seconds, asks the publishers that it hears for the names of
their topics, and lists those that match, also if nothing is published on them just
now. It subscribes to nothing: publishers do not wait for it.

In a pattern the token * stands for any one token, and >, as the last, for one or
more. Quote it for the shell: 'md.*.AAPL', 'md.>'.
`,
		notes: `MESSAGES is how many a publisher has published on the topic since it began, and
PER SECOND its rate while ls listened. A publisher that has nothing to say is heard
once a second: with less than two seconds it may be missed.

With -json each topic is an object {"type":"topic","topic":...,"group":...,
"publishers":[{"id":...,"address":...,"messages":...,"messages_per_second":...}]};
the last object is the summary.
`,
		examples: []string{
			"fanfare ls",
			"fanfare ls -for 10s 'md.>'",
			"fanfare ls -t udp://239.20.0.0/16?iface=eth0 -json",
		},
		exits: []word{mismatchExit},
		exitNotes: `It is 1 when no topic was heard; the line says why, as far as that is known.
`,
		flags: flagsOf(func() *ls { return new(ls) }),
	}
}

func (l *ls) register(fs *flagSet) {
	l.registerURL(fs)
	durationVar(fs, &l.listen, "for", 3*time.Second, "listen for D (such as 500ms, 10s)")
	l.registerRest(fs)
}

func (l *ls) check(_ *flagSet, operands []string) error {
	if l.listen <= 0 {
		return usagef("-for %v must be a time above zero", l.listen)
	}
	if l.patterns = operands; len(operands) == 0 {
		l.patterns = []string{">"}
	}
	if err := checkTopics(l.patterns, pubsub.CheckPattern); err != nil {
		return err
	}
	return l.common.check()
}
