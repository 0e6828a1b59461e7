package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/fanfaremq/fanfare/bench/compression"
	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/outfile"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type dict struct {
	common
	out     string
	force   bool // overwrite an existing file
	dicts   []string
	size    int // bytes
	framing framing
	listen  time.Duration
	max     uint64 // messages
	packet  int    // bytes
	live    bool   // the sources are topics, not files
	from    []string

	e        *env
	messages []compression.Messages
	bytes    int
	unread   error // why some messages were left out; nil: none were
}

const (
	dictBytes   = 256 << 20 // bytes of messages, at most
	minMessages = 16
)

func (d *dict) run(ctx context.Context, e *env) error {
	d.e = e
	if err := d.collect(ctx); err != nil {
		return err
	}
	switch n := count(len(d.messages), "message"); {
	case len(d.messages) >= minMessages:
	case d.unread != nil:
		return fmt.Errorf("only %s could be read, and a dictionary needs at least %d: %w", n, minMessages, d.unread)
	default:
		return fmt.Errorf("only %s received, and a dictionary needs at least %d", n, minMessages)
	}
	if d.unread != nil && !d.quiet {
		e.console.line("left out: %v", d.unread)
	}
	result, err := compression.Train(d.messages, d.packet, d.size)
	if err != nil {
		return err
	}
	if err := d.measure(ctx); err != nil {
		return err
	}
	if d.out != "" {
		if err := d.write(result.Bytes); err != nil {
			return pathError(err)
		}
	}
	if d.json {
		return newJSONLines(e.stdout).write(&jsonDictionary{"dictionary", result.Name(), len(result.Bytes), d.out, len(d.messages), d.bytes})
	}
	switch {
	case d.quiet:
	case d.out == "":
		e.console.line("dictionary %s of %d bytes, from %s; not written: add -o FILE", result.Name(), len(result.Bytes), count(len(d.messages), "message"))
	default:
		e.console.line("wrote %s: dictionary %s of %d bytes, from %s", d.out, result.Name(), len(result.Bytes), count(len(d.messages), "message"))
	}
	return nil
}

// write writes the dictionary to its file. Without -force an existing file is an error. A new file
// that cannot be written completely is removed, so that the next attempt does not find it; with
// -force the old file stays until the new one is complete.
func (d *dict) write(b []byte) error {
	if d.force {
		f, err := outfile.Create(d.out, 0o644)
		if err != nil {
			return err
		}
		return errors.Join(f.Put(b), f.Close())
	}
	f, err := os.OpenFile(d.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(d.out)
		return err
	}
	return nil
}

type jsonDictionary struct {
	Type     string `json:"type"` // "dictionary"
	Name     string `json:"name"`
	Size     int    `json:"bytes"`
	File     string `json:"file,omitempty"`
	Messages int    `json:"messages"`
	Bytes    int    `json:"message_bytes"`
}

func (d *dict) add(topic string, data []byte) bool {
	d.messages = append(d.messages, compression.Messages{Topic: topic, Data: bytes.Clone(data)})
	d.bytes += len(data)
	return !d.full()
}

func (d *dict) full() bool { return uint64(len(d.messages)) >= d.max || d.bytes >= dictBytes }

func (d *dict) collect(ctx context.Context) error {
	switch {
	case d.live:
		return d.fromTopics(ctx)
	}
	for _, name := range d.from {
		if d.full() {
			break
		}
		if err := d.fromFile(name); err != nil {
			return &usageError{err}
		}
	}
	return nil
}

// fromFile adds the messages of a file, compressed or not. From a truncated file it adds the complete messages.
func (d *dict) fromFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return pathError(err)
	}
	defer file.Close()
	failed := func(err error) error {
		if p := (*os.PathError)(nil); errors.As(err, &p) {
			return pathError(err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	plain, closePlain, err := decompressed(file, d.framing)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		d.leaveOut(fmt.Errorf("%s: truncated: %w", name, err))
		return nil
	case err != nil:
		return failed(err)
	}
	defer closePlain()
	for frames := newFrameReader(plain, d.framing); ; {
		msgs, err := frames.batch()
		var cut *frameError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &cut), errors.Is(err, io.ErrUnexpectedEOF):
			d.leaveOut(fmt.Errorf("%s, after the first %s: %w", name, count(frames.number, "message"), err))
			return nil
		case err != nil:
			return failed(err)
		}
		for _, m := range msgs {
			if !d.add("messages", m) {
				return nil
			}
		}
	}
}

func (d *dict) leaveOut(err error) {
	if d.unread != nil {
		err = fmt.Errorf("%w; %w", d.unread, err)
	}
	d.unread = err
}

func (d *dict) fromTopics(ctx context.Context) error {
	var cfg pubsub.Config
	var err error
	if cfg.Dictionaries, err = readDictionaries(d.dicts); err != nil {
		return err
	}
	var missing atomic.Pointer[events.DictionaryError]
	cfg.OnEvent = func(e events.Event) {
		d.fabricEvent(d.e, e)
		var err *events.DictionaryError
		if errors.As(e.Err, &err) {
			missing.CompareAndSwap(nil, err)
		}
	}
	defer func() {
		if err := missing.Load(); err != nil {
			d.unread = err
		}
	}()
	bus, log, closeBus, err := d.open(ctx, d.e, cfg)
	if err != nil {
		return err
	}
	defer closeBus()
	log.release(!d.quiet, d.quiet, dictWords)
	sub, err := bus.Subscribe(d.from[0], pubsub.Topics(d.from[1:]...), pubsub.SlowConsumer(pubsub.SlowGap))
	if err != nil {
		return err
	}
	stop := startMeter(d.e.console, !d.quiet, func(time.Duration) string { return count(len(d.messages), "message") })
	defer stop()
	last, cancel := context.WithTimeout(ctx, d.listen)
	defer cancel()
	for {
		msg, err := sub.Next(last)
		var gap *pubsub.GapError
		switch {
		case errors.As(err, &gap):
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case last.Err() != nil && len(d.messages) == 0:
			return d.unreadable.onlyUnreadable("no message received")
		case last.Err() != nil:
			return nil
		case err != nil:
			return err
		case !d.add(msg.Topic, msg.Data):
			return nil
		}
	}
}

var measured = []string{"none", "s2", "s2:better", "zstd:fastest", "zstd:default", "zstd:better"}

func (d *dict) measure(ctx context.Context) error {
	half := len(d.messages) / 2
	trained, err := compression.Train(d.messages[:half], d.packet, d.size)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(d.e.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !d.json {
		fmt.Fprintln(table, "COMPRESSION\tDICTIONARY\tWIRE\tRATE\tPACK\tUNPACK\t")
	}
	for _, text := range measured {
		spec, err := compress.Parse(text)
		if err != nil {
			return err
		}
		for _, with := range []*compress.Dictionary{nil, trained} {
			if with != nil && (text == "none" || text == "s2:better") {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r, err := compression.Measure(d.messages[half:], d.packet, spec, with)
			if err != nil {
				return err
			}
			if d.json {
				line := map[string]any{"type": "compression", "compression": text}
				for _, row := range r.Rows {
					line[row.Metric] = row.Value
				}
				if err := newJSONLines(d.e.stdout).write(line); err != nil {
					return err
				}
				continue
			}
			name := "-"
			if with != nil {
				name = fmt.Sprintf("%.0f bytes", r.Value("", "dictionary_bytes"))
			}
			fmt.Fprintf(table, "%s\t%s\t%.3f\t%.2f\t%.0f ns\t%.0f ns\t\n", text, name, r.Value("", "ratio"), r.Value("", "link_ratio"), r.Value("", "pack_ns"), r.Value("", "unpack_ns"))
		}
	}
	return table.Flush()
}

func dictCommand() command {
	return command{
		name:    "dict",
		summary: "make a dictionary for compression, from messages like those that will be published",
		usage: `fanfare dict [flags] -o DICT FILE...
fanfare dict [flags] -o DICT -t URL TOPIC|PATTERN...`,
		about: `It reads messages from files, or from topics as they are published, and writes what
they have in common to DICT. Then it prints the results of compression for each
codec: bytes on the wire and time per message, measured on the second half of the
messages with a dictionary of the first half.

Publish with pub -compress zstd -dict DICT, and subscribe with sub -dict DICT, using
the same file. To read topics that are already compressed, add -dict; if they are
sealed, add keys=FILE to the URL of -t.

The name of a dictionary, eight hexadecimal digits, is a hash of its content. A
subscriber that lacks a dictionary reports its name.`,
		notes: `WIRE is the share of bytes left on the wire, in full packets. RATE is how many times
as many messages a link of 1 Gb/s carries. PACK and UNPACK are the processor time per
message. Without -o no file is written.

With -json each line of the table is an object {"type":"compression",...}; the last
object, {"type":"dictionary","name":...,"bytes":...,"file":...}, is the dictionary.`,
		examples: `fanfare dict -o md.dict -framing itch day.itch
fanfare dict -o quotes.dict -for 30s -t udp:// 'quotes.>'`,
		exitNotes: `It is 1 when there were too few messages, or none could be read.`,
		flags:     flagsOf(func() *dict { return new(dict) }),
	}
}

func (d *dict) register(fs *flagSet) {
	stringVar(fs, &d.out, "o", "", "write the dictionary to `FILE`, which must not exist; publishers and subscribers need the same file")
	boolVar(fs, &d.force, "force", "with -o: overwrite an existing file")
	within(intVar(fs, &d.size, "size", 32<<10, "maximum size of the dictionary in `BYTES`, up to 1048576"), 256, maxDictionary)
	choiceVar(fs, &d.framing, "framing", "how files hold messages",
		word{string(framingLines), "each line is a message"},
		wordITCH,
		word{string(framingWhole), "each file is a message"})
	above(durationVar(fs, &d.listen, "for", 10*time.Second, "with topics: listen for D (such as 30s)"), 0)
	dictVar(fs, &d.dicts, "It is used to read messages from -t")
	above(countVar(fs, &d.max, "n", 100_000, "read at most `COUNT` messages"), 0)
	within(intVar(fs, &d.packet, "mtu", 1472, "packet size for the measurement in `BYTES`"), 512, 65507)
	d.registerURL(fs)
	d.registerOther(fs)
}

func (d *dict) check(fs *flagSet, operands []string) error {
	d.live = fs.isSet("t")
	switch {
	case len(operands) == 0:
		return usagef("no messages given: fanfare dict [flags] -o DICT FILE..., or -t URL TOPIC...")
	case fs.isSet("for") && !d.live:
		return usagef("-for needs -t URL TOPIC...")
	case len(d.dicts) > 0 && !d.live:
		return usagef("-dict needs -t URL TOPIC...: messages in files are not compressed with a dictionary")
	case d.force && d.out == "":
		return usagef("-force needs -o DICT")
	}
	if _, err := os.Lstat(d.out); d.out != "" && err == nil && !d.force {
		return usagef("-o: %s exists: use another file, or overwrite it with -force; processes with the old dictionary cannot read messages compressed with the new one", d.out)
	}
	d.from = operands
	if d.live {
		if err := checkTopics(operands, pubsub.CheckPattern); err != nil {
			return err
		}
	}
	return d.common.check()
}
