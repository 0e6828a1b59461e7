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
		about: `Messages come from standard input as they are read, or from a file that is
checked to its end before the first one is sent.`,
		examples: `fanfare pub -wait 2 news < headlines.txt
fanfare pub -file day.itch -framing itch -rate 50000 -wait 1 md.xnas
fanfare pub -flow tag:book -wait 1 md.xnas < quotes.txt
fanfare pub -compress zstd -dict md.dict -file day.itch -framing itch md.xnas
fanfare pub -file page.html -framing whole pages.front`,
		exits: []word{mismatchExit},
		exitNotes: `With -wait it is 1 when a subscriber vanished, or was released, without having
everything; one that takes its leave is not waited for. A subscriber that blocks pub
is named on standard error as it happens, and with -json in objects of
{"type":"stall"}; so are the last one that leaves, the next one that comes, and one
that had vanished and is back. A fault in standard input makes it 2, after the input
before it was published.`,
		flags: flagsOf(func() *pub { return new(pub) }),
	}
}

func (p *pub) register(fs *flagSet) {
	p.registerURL(fs)
	stringVar(fs, &p.file, "file", "", "read `FILE` instead of standard input; of gzip or Zstandard, unless it is one message, what it holds")
	choiceVar(fs, &p.framing, "framing", "how messages lie in the input",
		word{string(framingLines), "each line, without its newline, is a message"},
		wordITCH,
		word{string(framingWhole), "the input is one message, up to 16 MiB"})
	rateVar(fs, &p.rate, "rate", "at most `N` messages a second")
	atLeast(intVar(fs, &p.wait, "wait", 0, "wait for `N` subscribers of the topic before the first message, as long as one comes within -stall-limit, and at the "+
		"end for as long as they need to get everything"), 0)
	choiceVar(fs, &p.flow, "flow", "flow control",
		word{string(pubsub.FlowMin), "never outrun the slowest subscriber present"},
		word{"quorum:N", "never outrun the N fastest, or the slowest if there are fewer; others may have gaps"},
		word{string(pubsub.FlowMax), "never outrun the fastest"},
		word{"tag:TAG", "never outrun the slowest of those with that tag (sub -tag), and wait for no others"},
		word{"quorum:N,tag:TAG", "never outrun the N fastest of those with that tag"},
		word{"max,tag:TAG", "never outrun the fastest of them"},
		word{string(pubsub.FlowNone), "wait for no subscriber (set -rate too)"})
	atLeast(intVar(fs, &p.repeat, "repeat", 1, "publish the file `N` times"), 1)
	atLeast(durationVar(fs, &p.linger, "linger", lingerDefault, "how long to wait at the end (such as 500ms, 5s) for subscribers to get "+
		"everything; with -wait, as long as they come any further within -stall-limit"), 0)
	above(durationVar(fs, &p.silence, "silence", silenceDefault, "go on without a subscriber that has said nothing for D, in which it was asked ten times at least: it has "+
		"vanished, and holds pub up until then. Use a longer D where hosts stand still for longer, such as containers with a limit on processor time, "+
		"and raise -stall-limit with it"), 0)
	atLeast(durationVar(fs, &p.stall, "stall-limit", stallDefault, "go on without a subscriber that is there and lets no packet through for D: it is "+
		"released: it reports that, and has a gap. With -wait, give up when no subscriber comes for D before the first message; 0 waits for ever"), 0)
	intVar(fs, &p.slowBehind, "slow-behind", 0, "go on without a subscriber that stays more than `N` packets behind for all of -slow-for, until it is "+
		"at most half as far behind; 0 is no limit")
	above(durationVar(fs, &p.slowFor, "slow-for", slowDefault, "see -slow-behind"), 0)
	compressVar(fs, &p.compress, "how to compress what is published; subscribers need no flag, but for -dict. What does not get shorter goes as it is")
	dictVar(fs, &p.dicts, "It goes with -compress; subscribers need it, too (sub -dict)")
	boolVar(fs, &p.retain, "retain", "keep the last message for subscribers that come later and ask for it (sub -from state)")
	stringVar(fs, &p.name, "name", "", "the publisher's `NAME`, its identity across restarts. If two run at the same time, "+
		"subscribers receive both and report it after 5 s")
	p.registerRest(fs)
}

func (p *pub) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare pub [flags] TOPIC")
	case len(operands) > 1:
		return usagef("%d topics given, but pub takes one: %q is too many", len(operands), operands[1])
	case p.repeat > 1 && p.file == "":
		return usagef("-repeat needs -file: standard input can be read only once")
	case len(p.dicts) > 1:
		return usagef("-dict is given %d times: pub compresses with one", len(p.dicts))
	case len(p.dicts) > 0 && p.compress == pubsub.CompressNone:
		return usagef("-dict goes with -compress s2 or zstd")
	}
	p.topic = operands[0]
	if p.wait > 0 && !fs.isSet("linger") {
		p.linger = -1
	}
	return cmp.Or(checkTopics(operands, pubsub.CheckTopic), p.common.check())
}
