package cli

import (
	"os"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

func dictCommand() command {
	return command{
		name:    "dict",
		summary: "make a dictionary for compression, from messages like those that will be published",
		usage: []string{
			"fanfare dict [flags] -o DICT FILE...",
			"fanfare dict [flags] -o DICT -t URL TOPIC|PATTERN...",
			"fanfare dict [flags] -o DICT -r CAPTURE",
		},
		about: `It takes messages from files, from topics as they are published, or from a capture
file, and writes what they have in common to DICT. Then it says what compression
makes of them: bytes on the wire and time for each message, by each codec, measured
on the second half with a dictionary of the first.

Publish with pub -compress zstd -dict DICT, and give the same file to sub -dict DICT.
What is compressed already is read with -dict, and what is sealed with keys=FILE in
the URL of -t: a capture of sealed packets says nothing.

A dictionary is known by its name, of eight hexadecimal digits, which is a hash of it:
who lacks the one that is needed is told which.`,
		notes: `WIRE is the share of bytes that is left on the wire, of full packets. RATE is how many
times as many messages a link of 1 Gb/s carries. PACK and UNPACK are times of one
processor for a message. Without -o nothing is written.

With -json each line of the table is an object {"type":"compression",...}; the last
one, {"type":"dictionary","name":...,"bytes":...,"file":...}, is the dictionary.`,
		examples: []string{
			"fanfare dict -o md.dict -framing itch day.itch",
			"fanfare dict -o quotes.dict -for 30s -t udp:// 'quotes.>'",
			"fanfare dict -o md.dict -r capture.pcapng",
		},
		exitNotes: `It is 1 when there were too few messages, or none that could be read.`,
		flags:     flagsOf(func() *dict { return new(dict) }),
	}
}

func (d *dict) register(fs *flagSet) {
	stringVar(fs, &d.out, "o", "", "write the dictionary to `FILE`, which must not exist: publishers and subscribers need the same one")
	boolVar(fs, &d.force, "force", "of -o: write over a file that exists")
	within(intVar(fs, &d.size, "size", 32<<10, "at most `BYTES` in it, up to 1048576"), 256, maxDictionary)
	choiceVar(fs, &d.framing, "framing", "how messages lie in files",
		word{string(framingLines), "each line is one"},
		word{string(framingITCH), "before each message its length as a 2-byte big-endian number (Nasdaq BinaryFILE)"},
		word{string(framingWhole), "each file is one"})
	stringVar(fs, &d.capture, "r", "", "take messages from the capture `FILE` (pcap or pcapng), - is standard input")
	above(durationVar(fs, &d.listen, "for", 10*time.Second, "with topics: listen for D (such as 30s)"), 0)
	dictVar(fs, &d.dicts, "Messages of -t and -r that are compressed with it are read")
	above(countVar(fs, &d.most, "n", 100_000, "take `COUNT` messages at most"), 0)
	within(intVar(fs, &d.packet, "mtu", 1472, "measure with packets of `BYTES`"), 512, 65507)
	d.registerURL(fs)
	d.registerRest(fs)
}

func (d *dict) check(fs *flagSet, operands []string) error {
	d.live = fs.isSet("t")
	switch {
	case d.capture != "" && (d.live || len(operands) > 0):
		return usagef("-r takes no files and topics beside it")
	case d.capture == "" && len(operands) == 0:
		return usagef("nothing to learn from: fanfare dict [flags] -o DICT FILE..., -t URL TOPIC..., or -r CAPTURE")
	case fs.isSet("for") && !d.live:
		return usagef("-for goes with -t URL TOPIC...")
	case len(d.dicts) > 0 && !d.live && d.capture == "":
		return usagef("-dict goes with -t URL TOPIC... and -r CAPTURE: files are not compressed")
	case d.force && d.out == "":
		return usagef("-force goes with -o DICT")
	}
	if _, err := os.Lstat(d.out); d.out != "" && err == nil && !d.force {
		return usagef("-o: %s exists: name another file, or write over it with -force; who has the one of before cannot read what is compressed with the new one", d.out)
	}
	d.from = operands
	if d.live {
		if err := checkTopics(operands, pubsub.CheckPattern); err != nil {
			return err
		}
	}
	return d.common.check()
}
