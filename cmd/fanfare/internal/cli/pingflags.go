package cli

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

func pingCommand() command {
	return command{
		name:    "ping",
		summary: "measure the round trip to another process, there and back through the bus",
		usage: []string{
			"fanfare ping -listen [flags] [NAME]    answer pings",
			"fanfare ping [flags] [NAME]            send pings",
		},
		about: `Pings go out on topic ping.NAME and come back on pong.NAME; NAME is "default"
unless given. Each process that listens answers.
`,
		examples: []string{
			"fanfare ping -listen",
			"fanfare ping -count 10",
			"fanfare ping -count 100000 -interval 0 -size 1024",
		},
		exits: []word{mismatchExit},
		exitNotes: `An interrupt is the normal end of -listen and of pings without -count: 0.
`,
		flags: flagsOf(func() *ping { return new(ping) }),
	}
}

func (p *ping) register(fs *flagSet) {
	p.registerURL(fs)
	boolVar(fs, &p.listen, "listen", "answer pings until interrupted")
	countVar(fs, &p.count, "count", 0, "send `N` pings; 0, the default: until interrupted")
	durationVar(fs, &p.interval, "interval", time.Second, "time from one ping to the next; 0: send the next when the last is answered. "+
		"Below 10ms only the summary is written")
	intVar(fs, &p.size, "size", pingSize, "`BYTES` in a ping")
	durationVar(fs, &p.timeout, "timeout", pingTimeout, "how long to wait for an answer")
	p.registerRest(fs)
}

func (p *ping) check(fs *flagSet, operands []string) error {
	p.name = pingName
	switch {
	case len(operands) > 1:
		return usagef("ping takes one name: %q is too many", operands[1])
	case p.size < pingHeader || p.size > maxMessage:
		return usagef("-size %d must be from %d to %d bytes", p.size, pingHeader, maxMessage)
	case p.interval < 0:
		return usagef("-interval %v must not be negative: 0 sends the next ping when the last is answered", p.interval)
	case p.timeout <= 0:
		return usagef("-timeout %v must be more than 0", p.timeout)
	}
	if p.listen {
		for _, name := range []string{"count", "interval", "timeout", "size"} {
			if fs.isSet(name) {
				return usagef("-%s is for the side that pings, not for -listen", name)
			}
		}
	}
	if len(operands) == 1 {
		p.name = operands[0]
	}
	if err := checkTopics([]string{"ping." + p.name}, pubsub.CheckTopic); err != nil {
		return err
	}
	return p.common.check()
}
