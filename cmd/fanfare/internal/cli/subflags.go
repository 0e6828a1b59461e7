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
	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func subCommand() command {
	return command{
		name:    "sub",
		summary: "subscribe to topics or patterns, and write the messages",
		usage:   "fanfare sub [flags] TOPIC|PATTERN...",
		about: `A pattern subscribes to every matching topic, also to topics that appear later. The
token * matches any single token, and > at the end matches one or more tokens. Quote
patterns for the shell: 'md.*.AAPL', 'md.>'.

sub runs until it is interrupted, even when all publishers have ended, because others
may start. -n, -idle and -until end it earlier. With -until end it ends when all
publishers of its topics have ended or were lost; with several topics and patterns
each must have had a publisher. After 5 s without a publisher it reports that.

With several topics each line on standard output begins with the topic and a tab, and
a count of messages by topic follows at the end. With another -framing or with -o the
output does not contain the topics, and sub warns of that.`,
		notes: `With -json each message is an object {"type":"message","topic":...,"number":...,
"publisher":...,"data":...} ("data_base64" instead of "data" if it is not UTF-8),
unless -o is given; gaps ("type":"gap"), publishers that start and end
("type":"publisher") and publishers that wait for this sub ("type":"stall") are
objects between them; the last object is the summary. Messages dropped by -slow are
gaps with cause "` + events.CauseSlowConsumer.String() + `"; after -slow evict the summary has
"end":"evicted", with the packets behind and the duration in "evicted". "replaced"
counts messages that -slow conflate dropped for newer ones of their topics.
With -from state each state record is an object {"type":"state","topic":...,"next":
number of the first message after it,"publisher":...,"data":...}, unless -o is given;
{"type":"state_end",...} follows the last, and {"type":"no_state",...,"cause":...}
stands for a topic whose state is missing; in the summary "state_records" and
"no_state" count them.`,
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
		exitNotes: `It is 0 when -n messages were received, when with -until end the publishers ended and
everything was delivered, when the time of -until passed (with -n: after -n
messages), or when -idle ended it after at least one message (with -n: after -n
messages); state records count as messages. It is 1 when messages were lost
permanently (each gap is one line; beyond 1000 at once, one line a second), when
-from state got neither the state of a topic nor its first message, when a publisher
fell silent before its end, cannot be received, has another topic with the same id or
is not trusted for its topic, when -slow evict ended sub, or when the process did not
run (it was stopped) just before -until passed.`,
		flags: flagsOf(func() *sub { return new(sub) }),
	}
}

func (s *sub) register(fs *flagSet) {
	s.registerURL(fs)
	choiceVar(fs, &s.from, "from", "where in the streams to begin",
		word{string(fromLive), "messages published from now on"},
		word{string(fromWindow), "all messages that publishers still hold for repairs"},
		word{string(fromState), "the state that publishers keep of each topic (pub -retain: its last message), and all messages published after it; " +
			"state records count for -n"},
		word{string(fromFile), "where the last sub with the same file stopped. The file need not exist: sub writes it when it ends. " +
			"Messages no longer held by publishers are a gap"})
	choiceVar(fs, &s.slow, "slow", "what to do when messages arrive faster than they are written",
		word{"auto", "block publishers with flow control; those without continue, and sub has gaps"},
		word{"block", "block publishers"},
		word{"gap", "drop the oldest messages, with one line for each gap"},
		word{"latest", "skip to the newest messages, with a gap that gives the number skipped"},
		word{"evict", "end with an error"},
		word{"conflate", "write only the newest message of each topic, and count those replaced"})
	valueVar(fs, &s.until, "until", 0, "end after the time `WHEN` (such as 30s, 5m) or, if WHEN is the word end, when all publishers "+
		"of the topics have ended or were lost", parseUntil, "a time above zero with its unit, such as 30s, or the word end")
	above(countVar(fs, &s.max, "n", 0, "end after `COUNT` messages"), 0)
	stringVar(fs, &s.out, "o", "", "write messages to `FILE` instead of standard output")
	choiceVar(fs, &s.framing, "framing", "how to separate written messages",
		word{string(framingLines), "a newline after each message"},
		word{string(framingITCH), "the length before each message (2 bytes, big-endian)"},
		word{string(framingWhole), "no separator"})
	atLeast(durationVar(fs, &s.idle, "idle", 0, "end when no message arrives for D (such as 500ms, 5s)"), 0)
	within(countVar(fs, &s.behind, "behind", 0, "limit of -slow latest and evict: `N` packets behind one publisher; "+
		"0: half of the receive window"), 0, math.MaxInt32)
	stringVar(fs, &s.tag, "tag", "", "set `TAG`: publishers with -flow tag:TAG wait only for subscribers with this tag")
	dictVar(fs, &s.dicts, "It is required to read publishers that use -dict; give it several times for different dictionaries")
	stringVar(fs, &s.name, "name", "", "the subscriber's `NAME` in logs, events and tables of publishers; default: host and process")
	s.registerOther(fs)
}

func (s *sub) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare sub [flags] TOPIC|PATTERN...")
	case s.behind > 0 && s.slow != "latest" && s.slow != "evict":
		return usagef("-behind needs -slow latest or -slow evict")
	case s.from == "file:":
		return usagef("-from file: needs a file name")
	case s.json && s.out == "" && fs.isSet("framing"):
		return usagef("-framing needs -o with -json: messages on standard output are JSON objects")
	}
	s.topics = operands
	return cmp.Or(checkTopics(operands, pubsub.CheckPattern), s.common.check())
}

func (s *sub) slowOptions() []pubsub.SubscribeOption {
	if s.slow == "conflate" {
		return []pubsub.SubscribeOption{pubsub.Conflate(nil)} // the key is the topic
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
	Publisher string    `json:"publisher"`
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"epoch"`
	Group     string    `json:"group"`
	Behind    uint64    `json:"behind_packets"`
	Allowed   uint64    `json:"allowed_packets"`
	Seconds   float64   `json:"seconds"`
}

func evicted(err error) *jsonEvicted {
	var e *events.EvictedError
	if !errors.As(err, &e) {
		return nil
	}
	return &jsonEvicted{e.Publisher.String(), e.PublisherName, e.Epoch, e.Group, e.Behind, e.Allowed, e.For.Seconds()}
}

func evictedText(e *jsonEvicted) error {
	return fmt.Errorf("-slow evict: %s behind publisher %s (limit %d) for %s: read the output faster, or raise the limit with -behind",
		count(e.Behind, "packet"), cmp.Or(e.Name, e.Publisher), e.Allowed, plural.Duration(time.Duration(e.Seconds*float64(time.Second))))
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

const noPublisherAfter = 5 * time.Second // enough for the heartbeats of running publishers

// reportNoPublisher reports after noPublisherAfter that no publisher was detected, unless stopped before.
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

// resume is the position where a sub continues, and the file for its position at the end.
type resume struct {
	positions pubsub.Positions
	file      *outfile.File // nil: no file
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

// keep writes the positions. All messages before them must have been written.
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
	if s.tally.record(m); s.tally.total() == s.max {
		s.finished = endCount
	}
	return nil
}

// noState reports a topic without state: the output lacks its beginning, unless it begins with message 0.
func (s *sub) noState(err *pubsub.StateError) error {
	s.tally.noState(err)
	s.e.console.line("%v", err)
	return s.emit(&jsonState{Type: "no_state", Topic: err.Topic, Cause: err.Cause.String(), Publisher: err.Publisher.String()})
}

type jsonState struct {
	Type      string `json:"type"`
	Topic     string `json:"topic"`
	Next      uint64 `json:"next"` // number of the first message after the state
	Publisher string `json:"publisher"`
	jsonData
	Cause string `json:"cause,omitempty"`
}
