package cli

import (
	"math"
	"strconv"
	"time"
)

func demoCommand() command {
	return command{
		name:    "demo",
		summary: "show pub/sub over a simulated RDMA subnet that loses datagrams",
		usage:   []string{"fanfare demo [flags]"},
		about: `One publisher and some subscribers run in this process over a simulated subnet:
who is a member of the multicast group and how, what was sent, lost and repaired,
and whether everybody got everything.
`,
		notes: `The subnet lives in this process. So does that of -t sim://NAME in other commands:
two processes cannot meet there, for that take udp://.
`,
		examples: []string{
			"fanfare demo",
			"fanfare demo -subscribers 20 -loss 0.1",
			"fanfare demo -flavor roce -json",
		},
		flags: flagsOf(func() *demo { return new(demo) }),
	}
}

func (d *demo) register(fs *flagSet) {
	choiceVar(fs, &d.flavor, "flavor", "the kind of subnet", word{"ib", "InfiniBand"}, word{"roce", "RoCE v2"})
	intVar(fs, &d.subscribers, "subscribers", 3, "`N` subscribers, each on a host of its own")
	countVar(fs, &d.messages, "n", 5000, "publish `N` messages")
	intVar(fs, &d.size, "size", 200, "`BYTES` in a message")
	valueVar(fs, &d.loss, "loss", 0.02, "a copy of a datagram is lost with probability `P`", parseShare, "a probability below 1, such as 0.02")
	countVar(fs, &d.seed, "seed", 1, "seed `N` of the losses")
	choiceVar(fs, &d.sendOnly, "sendonly", "whether the subnet manager lets send-only members join",
		word{"on", "it does"}, word{"off", "it refuses them"})
	durationVar(fs, &d.timeout, "timeout", time.Minute, "give up after D (such as 30s)")
	boolVar(fs, &d.json, "json", "the result as one JSON object")
	boolVar(fs, &d.verbose, "v", "log what the buses do on standard error")
}

func parseShare(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || x < 0 || x >= 1 {
		return 0, strconv.ErrRange
	}
	return x, nil
}

func (d *demo) check(_ *flagSet, operands []string) error {
	switch {
	case len(operands) > 0:
		return usagef("demo takes no arguments: %q is too many", operands[0])
	case d.subscribers < 1 || d.subscribers > demoMaxSubscribers:
		return usagef("-subscribers %d must be from 1 to %d", d.subscribers, demoMaxSubscribers)
	case d.messages < 1:
		return usagef("-n %d must be 1 at least", d.messages)
	case d.size < demoMinSize || d.size > maxMessage:
		return usagef("-size %d must be from %d to %d bytes", d.size, demoMinSize, maxMessage)
	case d.flavor == "roce" && d.sendOnly == "off":
		return usagef("-sendonly off is a subnet manager that refuses send-only members; RoCE has none: leave it out, or take -flavor ib")
	case d.timeout <= 0:
		return usagef("-timeout %v must be more than 0", d.timeout)
	}
	return nil
}
