package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/outfile"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func subCommand() command {
	return command{
		name:    "sub",
		summary: "subscribe to topics, also by patterns, and write the messages",
		usage:   "fanfare sub [flags] TOPIC|PATTERN...",
		about: `A pattern is every topic that matches, also one that comes up later: in it the
token * stands for any one token, and >, as the last, for one or more. Quote it
for the shell: 'md.*.AAPL', 'md.>'.

It stays until it is interrupted, also where its publishers end: others may come.
-n, -idle and -until end it earlier. With -until end it ends when all publishers of
its topics have ended or were lost; each of several topics and patterns must have
had a publisher. After 5 s it reports that it detects no publisher.

Of several topics each line on standard output begins with the topic and a tab,
and at the end it says how many messages of each came. With another -framing and
with -o messages are written without their topics, and it says so.`,
		notes: `With -json each message is an object {"type":"message","topic":...,"number":...,
"publisher":...,"data":...} ("data_base64" instead of "data" if it is not UTF-8),
unless -o takes the messages; gaps ("type":"gap") and publishers coming and going
("type":"publisher") stand between them, as does that publishers wait for this
sub ("type":"stall"); the last object is the summary. What -slow left out are gaps of
cause "` + events.CauseSlowConsumer.String() + `"; a sub that -slow evict has ended has
"end":"evicted" and in "evicted" how far behind it was, and for how long. "replaced"
is how many messages -slow conflate has left out for newer ones of their topics.
With -from state each record of state is an object {"type":"state","topic":...,"next":
number of the first message behind it,"publisher":...,"data":...}, unless -o takes it,
{"type":"state_end",...} follows the last, and {"type":"no_state",...,"cause":...}
stands in the place of a topic's state that there is not; in the summary
"state_records" and "no_state" count them.`,
		examples: `fanfare sub news
fanfare sub -until end -o copy.itch -framing itch md.xnas
fanfare sub -json -idle 10s md.xnas.AAPL md.xnas.MSFT
fanfare sub -until 1m news sports
fanfare sub 'md.>' 'orders.*.new'
fanfare sub -tag book md.xnas
fanfare sub -slow latest -behind 100 quotes | slow-reader
fanfare sub -slow conflate 'quotes.>'
fanfare sub -dict md.dict -o copy.itch -framing itch md.xnas
fanfare sub -from window news
fanfare sub -from file:stopped.json -o rest.itch -framing itch md.xnas`,
		exits: []word{mismatchExit},
		exitNotes: `It is 0 when as many messages came as -n says, when with -until end the publishers
ended and everything was delivered, when the time of -until ended it (with -n: after
as many messages), or when -idle did after at least one message (with -n: after as
many); records of state count as messages. It is 1 when messages were lost
permanently, each gap with a line of its own (beyond 1000 at once with one a
second), when
-from state could not begin with a topic's state nor with its first message, when a
publisher was lost before its end, when one is not heard, when one has another
topic with the same id or is not trusted with one, when -slow evict ended it, or
when the process stood still (it was stopped) as the time of -until was over.`,
		flags: flagsOf(func() *sub { return new(sub) }),
	}
}

func (s *sub) register(fs *flagSet) {
	s.registerURL(fs)
	stringVar(fs, &s.out, "o", "", "write messages to `FILE` instead of standard output")
	choiceVar(fs, &s.framing, "framing", "how to write messages",
		word{string(framingLines), "each with a newline"},
		word{string(framingITCH), "each with its length before it (2 bytes, big-endian)"},
		word{string(framingWhole), "one after the other"})
	above(countVar(fs, &s.most, "n", 0, "end after `COUNT` messages"), 0)
	atLeast(durationVar(fs, &s.idle, "idle", 0, "end when no message came for D (such as 500ms, 5s)"), 0)
	valueVar(fs, &s.until, "until", 0, "end when the time `WHEN` has passed since the start (such as 30s, 5m), or, if WHEN is end, when all publishers "+
		"of the topics have ended or were lost", parseUntil, "a time above zero with its unit, such as 30s, or the word end")
	choiceVar(fs, &s.from, "from", "where to begin",
		word{string(fromLive), "with what is published from now on"},
		word{string(fromWindow), "with all that publishers still hold for repairs"},
		word{string(fromState), "with the state that publishers keep of each topic (pub -retain: its last message), and all that is published from then on; " +
			"its records count for -n"},
		word{string(fromFile), "where the sub before stopped that had the same file, which need not exist yet: it is written when a sub ends. " +
			"What is not held any more is a gap"})
	choiceVar(fs, &s.slow, "slow", "what happens when messages come faster than they can be written",
		word{"auto", "publishers that wait for their subscribers wait for this one, the others go on and it has gaps"},
		word{"block", "publishers wait"},
		word{"gap", "the oldest are lost, each gap with a line of its own"},
		word{"latest", "it goes on with the newest, and a gap says how many were left out"},
		word{"evict", "it ends with an error"},
		word{"conflate", "the newest message of each topic is written, and those that it has replaced are counted"})
	within(countVar(fs, &s.behind, "behind", 0, "how many packets of one publisher, `N`, -slow latest and evict let it fall behind; "+
		"0: half of what the receive window holds"), 0, math.MaxInt32)
	stringVar(fs, &s.tag, "tag", "", "carry `TAG`: publishers with -flow tag:TAG wait for those that carry it, and for no others")
	dictVar(fs, &s.dicts, "Publishers with -dict need it here; given more than once, each may compress with another")
	stringVar(fs, &s.name, "name", "", "the subscriber's `NAME` in the logs, events and tables of publishers; default: host and process")
	s.registerRest(fs)
}

func (s *sub) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare sub [flags] TOPIC|PATTERN...")
	case s.behind > 0 && s.slow != "latest" && s.slow != "evict":
		return usagef("-behind is for -slow latest and -slow evict")
	case s.from == "file:":
		return usagef("-from file: needs the name of a file")
	case s.json && s.out == "" && fs.isSet("framing"):
		return usagef("-framing needs -o here: with -json messages on standard output are JSON objects")
	}
	s.topics = operands
	return cmp.Or(checkTopics(operands, pubsub.CheckPattern), s.common.check())
}

func (s *sub) slowOptions() []pubsub.SubscribeOption {
	if s.slow == "conflate" {
		return []pubsub.SubscribeOption{pubsub.Conflate(nil)} // each topic is a key
	}
	options := []pubsub.SubscribeOption{pubsub.SlowConsumer(map[string]pubsub.SlowPolicy{
		"auto": pubsub.SlowAuto, "block": pubsub.SlowBlock, "gap": pubsub.SlowGap, "latest": pubsub.SlowLatest, "evict": pubsub.SlowEvict,
	}[s.slow])}
	if s.behind > 0 {
		options = append(options, pubsub.MaxBehind(int(s.behind)))
	}
	return options
}

func (s *sub) replaced() uint64 {
	if s.s == nil {
		return 0
	}
	return s.s.Stats().Replaced
}

type jsonEvicted struct {
	Publisher string  `json:"publisher"`
	Epoch     uint64  `json:"epoch"`
	Group     string  `json:"group"`
	Behind    uint64  `json:"behind_packets"`
	Allowed   uint64  `json:"allowed_packets"`
	Seconds   float64 `json:"seconds"`
}

func evicted(err error) *jsonEvicted {
	var e *events.EvictedError
	if !errors.As(err, &e) {
		return nil
	}
	return &jsonEvicted{e.Publisher.String(), e.Epoch, e.Group, e.Behind, e.Allowed, e.For.Seconds()}
}

func evictedText(e *jsonEvicted) error {
	return fmt.Errorf("-slow evict: %s behind publisher %s, %d allowed, and behind for %s: take what it writes faster, or allow more with -behind",
		count(e.Behind, "packet"), e.Publisher, e.Allowed, short(time.Duration(e.Seconds*float64(time.Second))))
}

const untilEnd time.Duration = -1 // the value of -until end

func parseUntil(text string) (time.Duration, error) {
	if text == "end" {
		return untilEnd, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = strconv.ErrRange
	}
	return d, err
}

const noPublisherAfter = 5 * time.Second // long enough for the announcements of publishers that are there

// reportNoPublisher reports after noPublisherAfter that no publisher of the topics was detected, unless stopped.
func (s *sub) reportNoPublisher() (stop func()) {
	if s.quiet {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		whileRunning(ctx, noPublisherAfter, errors.New("it is time"), func(step context.Context) error {
			<-step.Done()
			return context.Cause(step)
		})
		if ctx.Err() == nil && !s.detected() {
			s.e.console.line("no publisher of %s detected for %v: is one running, with the same -t? fanfare doctor checks this host, and its -peer the network",
				s.topicsText(), noPublisherAfter)
		}
	})
	return func() { cancel(); wait.Wait() }
}

func (s *sub) detected() bool {
	if s.tally.shown.messages.Load() > 0 || s.tally.shown.gapCount.Load() > 0 {
		return true
	}
	for _, p := range s.s.Stats().Publishers {
		if p.Relevant {
			return true
		}
	}
	return false
}

func (s *sub) topicsText() string {
	if len(s.topics) > 3 {
		return "these " + count(len(s.topics), "topic")
	}
	return strings.Join(s.topics, ", ")
}

type fromWord string

const (
	fromLive   fromWord = "live"
	fromWindow fromWord = "window"
	fromState  fromWord = "state"
	fromFile   fromWord = "file:FILE"
)

// resume is where a sub begins that goes on from a file, and what it writes there when it ends.
type resume struct {
	positions pubsub.Positions
	file      *outfile.File // nil: it goes on from no file
}

func (w fromWord) file() (path string, ok bool) { return strings.CutPrefix(string(w), "file:") }

func (s *sub) fromOption() pubsub.SubscribeOption {
	if s.resume.file != nil {
		return pubsub.From(&s.resume.positions)
	}
	start, _ := pubsub.ParseStart(string(s.from))
	return pubsub.From(start)
}

func (s *sub) openPositions() error {
	path, ok := s.from.file()
	if !ok {
		return nil
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s.resume.positions)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		s.resume.file, err = outfile.Create(path, 0o644)
	}
	if err != nil {
		return fmt.Errorf("-from %s: %w", s.from, pathError(err))
	}
	return nil
}

func (s *sub) delivered(m pubsub.Message, err error) {
	if s.resume.file != nil {
		s.resume.positions.Add(m, err)
	}
}

// keep writes the positions, when all that is before them is written.
func (r *resume) keep() error {
	if r.file == nil {
		return nil
	}
	data, err := json.Marshal(r.positions)
	if err == nil {
		err = r.file.Put(append(data, '\n'))
	}
	return cmp.Or(err, r.file.Close())
}

func (s *sub) stateRecord(m *pubsub.Message) error {
	if m.IsStateEnd() {
		return s.emit(&jsonState{Type: "state_end", Topic: m.Topic, Next: m.Number, Publisher: m.Publisher().String()})
	}
	if s.json && s.out == "" {
		if err := s.emit(&jsonState{Type: "state", Topic: m.Topic, Next: m.Number, Publisher: m.Publisher().String(), jsonData: dataAsJSON(m.Data)}); err != nil {
			return err
		}
	} else if err := s.sink.write(m); err != nil {
		return err
	}
	if s.tally.record(m); s.tally.came() == s.most {
		s.finished = endCount
	}
	return nil
}

// noState reports a topic without state: what is written lacks its beginning, unless it begins with message 0.
func (s *sub) noState(err *pubsub.StateError) error {
	s.tally.noState(err)
	s.e.console.line("%v", err)
	return s.emit(&jsonState{Type: "no_state", Topic: err.Topic, Cause: err.Cause.String(), Publisher: err.Publisher.String()})
}

type jsonState struct {
	Type      string `json:"type"`
	Topic     string `json:"topic"`
	Next      uint64 `json:"next"` // number of the first message that is not in the state
	Publisher string `json:"publisher"`
	jsonData
	Cause string `json:"cause,omitempty"`
}
