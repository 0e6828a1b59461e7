package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type sub struct {
	common
	topics  []string
	out     string
	framing framing
	max     uint64
	idle    time.Duration
	until   time.Duration // 0: no limit; or untilEnd
	name    string
	slow    string
	behind  uint64
	from    fromWord
	resume  resume
	tag     string
	dicts   []string

	e          *env
	bus        *pubsub.Bus
	s          *pubsub.Subscription
	sink       sink
	stalls     stallQueue // events for the JSON output
	events     *jsonLines // destination of gaps and events with -json
	tally      tally
	idled      time.Duration               // time waited since the last message
	finished   end                         // empty while receiving
	undetected *events.ConfigMismatchError // the latest while no publisher of our topics was detected
	ends       time.Time                   // set by -until
	stood      atomic.Pointer[time.Time]   // when the bus last reported that the process had not run for a while
}

type end string

const (
	endCount     end = "count"     // -n messages received
	endPublisher end = "publisher" // all publishers have ended
	endIdle      end = "idle"      // -idle passed
	endUntil     end = "until"     // -until passed
	endSignal    end = "signal"
	endMismatch  end = "mismatch" // the messages waited for cannot arrive
	endEvicted   end = "evicted"  // -slow evict
	endError     end = "error"
)

func (s *sub) run(ctx context.Context, e *env) error {
	s.e = e
	dicts, err := readDictionaries(s.dicts)
	if err != nil {
		return err
	}
	bus, log, closeBus, err := s.open(ctx, e,
		pubsub.Config{Name: s.name, Tag: s.tag, Dictionaries: dicts, OnEvent: s.busEvent})
	if err != nil {
		return err
	}
	defer closeBus()
	s.bus = bus
	last := ctx // cancelled by a signal or after the time of -until
	if s.until > 0 {
		var stop context.CancelFunc
		s.ends = time.Now().Add(s.until)
		last, stop = context.WithDeadlineCause(ctx, s.ends, errUntil)
		defer stop()
	}
	stdout := newOutWriter(last, s.e.stdout)
	defer stdout.close()
	s.tally.init(s.topics)
	if err := s.openPositions(); err != nil { // before the output file is truncated
		return &usageError{err}
	}
	file, err := s.output(stdout, s.tally.topics.several())
	if err != nil {
		return &usageError{err}
	}
	if text := s.mixed(); text != "" && !s.quiet {
		e.console.line("%s", text)
	}
	log.release(!s.quiet, s.quiet, subWords)
	defer s.watchInProcess(e)()
	s.s, err = bus.Subscribe(s.topics[0],
		append(s.slowOptions(), s.fromOption(), pubsub.Topics(s.topics[1:]...), pubsub.PublisherEvents())...)
	if err == nil {
		stopMeter, stopReport := startMeter(s.e.console, s.showMeter(s.e.stdout, s.out), s.status()), s.reportNoPublisher()
		err = s.receive(last)
		stopReport()
		stopMeter()
	}
	flushed := s.sink.flush()
	if flushed == nil {
		flushed = s.resume.keep()
	}
	err = cmp.Or(err, flushed)
	if file != nil {
		err = cmp.Or(err, pathError(file.Close()))
	}
	return s.finish(ctx, err)
}

// output creates the sink. With several topics, lines on standard output include the topic.
func (s *sub) output(stdout io.Writer, several bool) (*os.File, error) {
	if s.json {
		s.events = newJSONLines(stdout)
	}
	switch {
	case s.out != "":
		f, err := os.Create(s.out)
		if err != nil {
			return nil, pathError(err)
		}
		s.sink = &frameSink{frameWriter: newFrameWriter(f, s.framing)}
		return f, nil
	case s.json:
		j := newJSONSink(stdout)
		s.sink, s.events = j, j.lines
	default:
		s.sink = &frameSink{newFrameWriter(stdout, s.framing), several && s.framing == framingLines}
	}
	return nil, nil
}

// busEvent reports immediately that this process blocks publishers: the reader of its output may have stopped.
func (s *sub) busEvent(e events.Event) {
	s.fabricEvent(s.e, e)
	if e.Kind == events.StoodStill {
		now := time.Now()
		s.stood.Store(&now)
	}
	if text := stallLine(e); text != "" {
		s.e.console.peerLine("%s", text)
		s.stalls.put(asStall(stallWords[e.Kind], e))
	}
}

func (s *sub) writeStalls() error {
	if s.events == nil {
		return nil
	}
	return s.stalls.write(s.events)
}

func (s *sub) message(m *pubsub.Message) error {
	if m.IsState() {
		return s.stateRecord(m)
	}
	s.tally.message(m.Publisher(), m)
	if err := s.sink.write(m); err != nil {
		return err
	}
	s.delivered(*m, nil)
	if s.tally.total() == s.max {
		s.finished = endCount
	}
	return nil
}

func (s *sub) other(err error) error {
	var gap *pubsub.GapError
	var event *pubsub.PublisherEvent
	var collision *events.TopicCollisionError
	var refused *events.PublisherRefusedError
	var state *pubsub.StateError
	s.delivered(pubsub.Message{}, err)
	switch {
	case errors.As(err, &gap):
		return s.gap(gap)
	case errors.As(err, &state):
		return s.noState(state)
	case errors.As(err, &event):
		return s.event(event)
	case errors.As(err, &collision):
		s.tally.Collisions++ // others continue, but the output lacks the messages of the topic with the same id
		return s.notice(collision, jsonNotice{
			Type: "collision", Topic: collision.Known, Other: collision.Other, Publisher: collision.Publisher.String(),
		})
	case errors.As(err, &refused):
		s.tally.Refused++
		return s.notice(refused, jsonNotice{
			Type: "refused", Publisher: refused.Publisher.String(), Epoch: refused.Epoch, Group: refused.Group, Reason: refused.Reason.String(),
		})
	case errors.Is(err, errUntil):
		s.finished = endUntil
		return nil
	case errors.Is(err, errIdle):
		s.finished = endIdle
		return nil
	}
	return err
}

func (s *sub) emit(v any) error {
	if s.events == nil {
		return nil
	}
	return s.events.write(v)
}

func (s *sub) gap(g *pubsub.GapError) error {
	s.tally.gap(g)
	s.e.console.gap("%v", g)
	out := asJSON(g)
	out.Type = "gap"
	return s.emit(out)
}

func asJSON(g *pubsub.GapError) jsonGap {
	return jsonGap{Topic: g.Topic, First: g.First, Count: g.Count, Open: g.Open, Cause: g.Cause.String(),
		Publisher: g.Publisher.String(), Name: g.PublisherName}
}

// notice reports a publisher because of which the output lacks messages, or has messages of another topic.
func (s *sub) notice(err error, n jsonNotice) error {
	s.e.console.line("%v", err)
	return s.emit(n)
}

func (s *sub) fault(e *pubsub.PublisherEvent, err *events.FaultError) error {
	if s.tally.fault(e, err) {
		s.ended()
	}
	return s.notice(err, jsonNotice{
		Type: "fault", Publisher: err.Publisher.String(), Epoch: err.Epoch, Group: e.Group, Topic: err.Topic, Fault: err.Fault.String(), Count: err.Count,
	})
}

func (s *sub) event(e *pubsub.PublisherEvent) error {
	var fault *events.FaultError
	if errors.As(e.Err, &fault) {
		return s.fault(e, fault)
	}
	if e.Kind == events.ConfigMismatch || e.Kind == events.ConfigDiffers {
		return s.mismatch(e)
	}
	var dictionary *events.DictionaryError
	if errors.As(e.Err, &dictionary) {
		return s.dictionaryMissing(e, dictionary)
	}
	ours, done := s.tally.event(e)
	if ours {
		switch e.Kind {
		case events.PublisherLost:
			s.tally.publisher(e.Publisher).lostAt = time.Now()
			s.e.console.line("%s fell silent before its end: %s", publisherText(events.Event(*e)), s.unreadable.lost(e))
		case events.PublisherUp:
			if p := s.tally.publisher(e.Publisher); !p.lostAt.IsZero() {
				s.e.console.line("%s is received again, after %v", publisherText(events.Event(*e)), time.Since(p.lostAt).Round(10*time.Millisecond))
				p.lostAt = time.Time{}
			}
		case events.PublisherRestarted:
			s.e.console.line("%s fell silent before its end, while another instance with its name is running: it was restarted or disconnected", publisherText(events.Event(*e)))
		case events.DuplicateName:
			s.e.console.line("%v", e)
		}
	}
	if missing := s.tally.missing(); ours && len(missing) > 0 && s.until == untilEnd {
		s.e.console.line("the publishers detected so far have ended; -until end still waits for a publisher of %s", strings.Join(missing, ", "))
	}
	if done {
		s.ended()
	}
	words := map[events.Kind]string{
		events.PublisherUp: "up", events.PublisherEnded: "ended",
		events.PublisherLost: "lost", events.PublisherRestarted: "restarted", events.DuplicateName: "duplicate name",
	}
	return s.emit(jsonNotice{
		Type: "publisher", Event: words[e.Kind], Publisher: e.Publisher.String(), Name: e.Name, Address: e.Address, Epoch: e.Epoch, Group: e.Group, Reason: plain(e.Err),
	})
}

// ended finishes sub with -until end, because all its publishers have ended and no other publishes its topics.
func (s *sub) ended() {
	if s.until == untilEnd && !s.othersPublish() {
		s.finished = endPublisher
	}
}

// mismatch reports a bus with a different configuration. It is an error if sub waits for a number
// of messages and has detected no publisher of its topics.
func (s *sub) mismatch(e *pubsub.PublisherEvent) error {
	var m *events.ConfigMismatchError
	if !errors.As(e.Err, &m) {
		return nil
	}
	if err := s.emit(mismatchAsJSON(m, e.Relevant)); err != nil {
		return err
	}
	if m.Harmless() {
		return nil
	}
	if e.Relevant && !s.tally.anyOurs(func(*publisher) bool { return true }) {
		s.undetected = m
		if s.max > 0 {
			return mismatchError(fmt.Errorf("%s cannot arrive: %w", count(s.max, "message"), m))
		}
	}
	if !s.quiet {
		s.e.console.line("%v", m)
	}
	return nil
}

func (s *sub) dictionaryMissing(e *pubsub.PublisherEvent, err *events.DictionaryError) error {
	if s.quiet { // otherwise the log reports it
		s.e.console.line("%v", err)
	}
	return s.emit(jsonNotice{
		Type: "dictionary_missing", Publisher: err.Publisher.String(), Epoch: err.Epoch, Group: e.Group, Codec: err.Codec, Dictionary: err.Dictionary,
	})
}
