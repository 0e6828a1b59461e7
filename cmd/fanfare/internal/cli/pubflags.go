package cli

import (
	"cmp"

	"github.com/fanfaremq/fanfare/pubsub"
)

func pubCommand() command {
	return command{
		name:    "pub",
		summary: "publish lines, ITCH records or a file on a topic",
		usage:   "fanfare pub [flags] TOPIC",
		about: `Messages are read from standard input as they arrive, or from a file, which is checked
completely before the first message is sent.`,
		examples: `fanfare pub -wait 2 news < headlines.txt
fanfare pub -file day.itch -framing itch -rate 50000 -wait 1 md.xnas
fanfare pub -flow tag:book -wait 1 md.xnas < quotes.txt
fanfare pub -compress zstd -dict md.dict -file day.itch -framing itch md.xnas
fanfare pub -file page.html -framing whole pages.front`,
		exits: []word{mismatchExit},
		exitNotes: `With -wait it is 1 when a subscriber stopped answering, or was released, before it had
received everything; subscribers that leave in order are not waited for. Standard
error names a subscriber that blocks pub, the last one that leaves, the next one that
comes, and one that answers again after having stopped; with -json they are objects
{"type":"stall"}. An error in standard input makes it 2, after all input before the
error was published.`,
		flags: flagsOf(func() *pub { return new(pub) }),
	}
}

func (p *pub) register(fs *flagSet) {
	p.registerURL(fs)
	stringVar(fs, &p.file, "file", "", "read `FILE` instead of standard input; gzip and Zstandard files are decompressed unless -framing is whole")
	choiceVar(fs, &p.framing, "framing", "how messages are separated in the input",
		word{string(framingLines), "each line, without its newline, is a message"},
		wordITCH,
		word{string(framingWhole), "the input is one message, up to 16 MiB"})
	rateVar(fs, &p.rate, "rate", "publish at most `N` messages a second")
	atLeast(intVar(fs, &p.wait, "wait", 0, "wait for `N` subscribers of the topic before the first message, as long as one comes within -stall-limit, and at the "+
		"end for as long as they need to receive everything"), 0)
	choiceVar(fs, &p.flow, "flow", "flow control",
		word{string(pubsub.FlowMin), "wait for the slowest subscriber present"},
		word{"quorum:N", "wait for the N fastest subscribers, or for the slowest if there are fewer; others may have gaps"},
		word{string(pubsub.FlowMax), "wait for the fastest subscriber"},
		word{"tag:TAG", "wait for the slowest subscriber with that tag (sub -tag), and for no others"},
		word{"quorum:N,tag:TAG", "wait for the N fastest subscribers with that tag"},
		word{"max,tag:TAG", "wait for the fastest subscriber with that tag"},
		word{string(pubsub.FlowNone), "wait for no subscriber; use with -rate"})
	atLeast(intVar(fs, &p.repeat, "repeat", 1, "publish the file `N` times"), 1)
	atLeast(durationVar(fs, &p.linger, "linger", lingerDefault, "how long to wait at the end (such as 500ms, 5s) until subscribers have received "+
		"everything; with -wait the default is as long as they make progress within -stall-limit"), 0)
	above(durationVar(fs, &p.silence, "silence", silenceDefault, "stop waiting for a subscriber that sends nothing for D, during which pub asks it at least ten times. Until then it "+
		"blocks pub. Use a longer D if hosts may pause for longer, such as containers with limited processor time, "+
		"and raise -stall-limit with it"), 0)
	atLeast(durationVar(fs, &p.stall, "stall-limit", stallDefault, "release a subscriber that answers but blocks pub for D: pub no longer waits for it, and it "+
		"reports that and has a gap. With -wait, give up when no subscriber comes for D before the first message; 0 waits forever"), 0)
	intVar(fs, &p.slowBehind, "slow-behind", 0, "release a subscriber that stays more than `N` packets behind for all of -slow-for, until it is "+
		"at most half as far behind; 0 is no limit")
	above(durationVar(fs, &p.slowFor, "slow-for", slowDefault, "see -slow-behind"), 0)
	compressVar(fs, &p.compress, "compression of what is published; subscribers need no flag except -dict. Data that would not get smaller is sent uncompressed")
	dictVar(fs, &p.dicts, "Use it with -compress; subscribers need it, too (sub -dict)")
	boolVar(fs, &p.retain, "retain", "keep the last message for subscribers that come later and ask for it (sub -from state)")
	stringVar(fs, &p.name, "name", "", "the publisher's `NAME`, its identity across restarts. If two publishers use it at the same time, "+
		"subscribers receive both, and report it after 5 s")
	p.registerOther(fs)
}

func (p *pub) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare pub [flags] TOPIC")
	case len(operands) > 1:
		return usagef("%d topics given, but pub publishes on one: %q is too many", len(operands), operands[1])
	case p.repeat > 1 && p.file == "":
		return usagef("-repeat needs -file: standard input can be read only once")
	case len(p.dicts) > 1:
		return usagef("-dict given %d times: pub compresses with one dictionary", len(p.dicts))
	case len(p.dicts) > 0 && p.compress == pubsub.CompressNone:
		return usagef("-dict needs -compress s2 or zstd")
	}
	p.topic = operands[0]
	if p.wait > 0 && !fs.isSet("linger") {
		p.linger = -1
	}
	return cmp.Or(checkTopics(operands, pubsub.CheckTopic), p.common.check())
}
