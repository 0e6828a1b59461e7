package cli

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

func lsCommand() command {
	return command{
		name:    "ls",
		summary: "list who publishes and subscribes to what, here and on the wire",
		usage:   []string{"fanfare ls [flags] [PATTERN...]"},
		about: `It asks the processes of this host that have a bus, at their sockets, what they
publish and subscribe to. Then it listens to the fabric for some seconds, asks the
publishers that it hears for the names of their topics, and lists those that match,
also if nothing is published on them just now. It subscribes to nothing: publishers
do not wait for it. With -t it only listens, with -here or -socket it only asks,
which is done at once. What stands without a flag is a pattern: a process to
ask is named with -socket.

In a pattern the token * stands for any one token, and >, as the last, for one or
more. Quote it for the shell: 'md.*.AAPL', 'md.>'.
`,
		notes: `MESSAGES is how many a publisher has published on the topic since it began, and
PER SECOND its rate while ls listened; of a subscription it is how many were
delivered. A publisher that has nothing to say is heard once a second: with less
than two seconds it may be missed.

With -json each process is an object {"type":"process","pid":...,"program":...,
"buses":[{"id":...,"urls":[...],"publishes":[...],"subscribes":[...]}]}, and each
topic that was heard {"type":"topic","topic":...,"group":...,"publishers":[{"id":...,
"address":...,"messages":...,"messages_per_second":...}]}; the last object is the
summary, where ls has listened.
`,
		examples: []string{
			"fanfare ls",
			"fanfare ls -here",
			"fanfare ls -for 10s 'md.>'",
			"fanfare ls -t udp://239.20.0.0/16?iface=eth0 -json",
		},
		exits: []word{mismatchExit},
		exitNotes: `It is 1 when no topic was heard, or with -here no process is there that has one,
or when a process of this host did not answer; the line says why, as far as that
is known.
`,
		flags: flagsOf(func() *ls { return new(ls) }),
	}
}

func (l *ls) register(fs *flagSet) {
	l.registerURL(fs)
	boolVar(fs, &l.hereOnly, "here", "only the processes of this host")
	urlsVar(fs, &l.sockets, "socket", nil, "ask at this socket, or at those in this directory, in place of all of yours (a `PATH`; may be given more than once)")
	durationVar(fs, &l.listen, "for", 3*time.Second, "listen for D (such as 500ms, 10s)")
	l.registerRest(fs)
}

func (l *ls) check(fs *flagSet, operands []string) error {
	if l.listen <= 0 {
		return usagef("-for %v must be a time above zero", l.listen)
	}
	if l.hereOnly && fs.isSet("t") {
		return usagef("-here asks the processes of this host, and -t says what to listen to: take one of them")
	}
	l.host = l.hereOnly || len(l.sockets) > 0 || !fs.isSet("t")
	l.wire = fs.isSet("t") || !l.hereOnly && len(l.sockets) == 0
	if l.patterns = operands; len(operands) == 0 {
		l.patterns = []string{">"}
	}
	if err := checkTopics(l.patterns, pubsub.CheckPattern); err != nil {
		return err
	}
	return l.common.check()
}
