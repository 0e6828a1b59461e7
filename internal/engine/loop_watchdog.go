package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// watchdog reports why the loop has had no control for seconds. A slow handler is reported while it runs, which the
// loop itself cannot do: so a timer, armed while there are handlers to call, checks whether the loop has had control
// since. A process that did not run is reported when it runs again (standstill).
type watchdog struct {
	l *Loop
	// since is when the loop last had control in its current turn; 0: between turns. Written by the loop.
	since atomic.Int64
	// called is what the loop has called last in this turn: onEvent, the mark of a topic, or 0. Written by the loop.
	called    atomic.Uint32
	armed     atomic.Bool
	reported  atomic.Int64  // value of since for the handler reported last; 0: it has returned
	reporter  atomic.Uint64 // the goroutine that reports
	goroutine atomic.Uint64 // the loop's
	emitting  sync.Mutex    // held while Config.Events is called
	stand     standstill    // loop only

	mu    sync.Mutex
	timer *time.Timer               // under mu
	ended bool                      // under mu
	when  backoffReporter           // under mu
	last  int64                     // under mu: since, at the last check
	time  watchedTime               // under mu: observed with that since
	names map[uint32][]handledTopic // under mu: by mark
	topic string                    // under mu: of the handler reported last
	said  time.Duration             // under mu: its duration at that report
}

// handledTopic is a topic with n handlers.
type handledTopic struct {
	name string
	n    int
}

// Marks that belong to no topic, and the lowest that may.
const (
	onEvent      = 1
	minTopicMark = 2
)

// markOf returns the mark of a topic. Topics may share a mark, which only names the topic in a report.
func markOf(id uint64) uint32 { return max(uint32(id), minTopicMark) }

// know adds a handler of a topic.
func (w *watchdog) know(id uint64, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = make(map[uint32][]handledTopic)
	}
	m := markOf(id)
	if i := w.find(m, name); i >= 0 {
		w.names[m][i].n++
		return
	}
	w.names[m] = append(w.names[m], handledTopic{name, 1})
}

// forget removes a handler of a topic.
func (w *watchdog) forget(id uint64, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := markOf(id)
	i := w.find(m, name)
	if i < 0 {
		return
	}
	list := w.names[m]
	if list[i].n--; list[i].n > 0 {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		w.names[m] = list
	} else {
		delete(w.names, m)
	}
}

// find returns the index of the topic among those of its mark, or -1. Under mu.
func (w *watchdog) find(mark uint32, name string) int {
	return slices.IndexFunc(w.names[mark], func(t handledTopic) bool { return t.name == name })
}

func (w *watchdog) begin(now reliable.Instant) {
	w.stand.ran(now, false)
	w.called.Store(0)
	w.since.Store(int64(now))
}

// arm starts the checks, before the loop calls a handler.
func (w *watchdog) arm() {
	if !w.armed.Load() {
		w.start()
	}
}

func (w *watchdog) start() {
	w.armed.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended || w.l.virtual != nil:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(watchEvery, w.look)
	default:
		w.timer.Reset(watchEvery)
	}
	w.time.at = w.l.now()
}

// control records that the loop has control at now, so a reported handler has returned.
func (w *watchdog) control(now reliable.Instant) {
	w.stand.ran(now, w.called.Load() != 0)
	w.since.Store(int64(now))
	if w.reported.Load() == 0 {
		return
	}
	began := w.reported.Swap(0)
	w.mu.Lock()
	topic, d := w.topic, w.said
	if w.last == began { // nothing else was checked since
		d = w.time.by(now)
	}
	w.mu.Unlock()
	e := events.Event{Kind: events.HandlerReturned, For: d, Topics: topicsOf(topic)}
	report.HandlerReturned.Log(w.l.log, "handler", handlerText(topic), "after", e.For)
	w.l.event(e)
}

// end ends a turn and returns the time. The next turn is due by deadline.
func (w *watchdog) end(now, deadline reliable.Instant) reliable.Instant {
	w.control(now)
	w.since.Store(0)
	now = w.l.now()
	w.stand.ran(now, w.called.Load() != 0)
	w.stand.runs.Rests(deadline)
	return now
}

// stop stops the watchdog: the loop has ended.
func (w *watchdog) stop() {
	w.goroutine.Store(0) // another goroutine may soon have the same id
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look is called by the timer.
func (w *watchdog) look() {
	since := w.since.Load()
	if since == 0 {
		w.armed.Store(false)
		if w.since.Load() != 0 { // a turn has begun that did not arm it
			w.arm()
		}
		return
	}
	called := w.called.Load()
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return
	}
	if since != w.last {
		w.last, w.time = since, watchedTime{at: max(reliable.Instant(since), w.time.at)}
		w.when.over()
	}
	d := w.time.look(w.l.now())
	due := called != 0 && w.when.due(d) // without a call the loop itself did not run
	if due {
		w.topic, w.said = "", d
		if names := w.names[called]; len(names) > 0 {
			w.topic = names[0].name
		}
	}
	topic := w.topic
	next := max(w.when.next, firstReport) - d
	w.timer.Reset(min(watchEvery, max(next, time.Millisecond)))
	w.mu.Unlock()
	if due && w.since.Load() == since {
		w.reported.Store(since)
		w.report(events.Event{Kind: events.HandlerSlow, For: d, Topics: topicsOf(topic)}, topic)
	}
}

// other calls the subscription's handler with something other than a message. Loop only.
func (s *Subscription) other(d *Delivery) {
	var id uint64
	switch {
	case d.Topic != nil:
		id = d.Topic.ID
	case s.topics.Len() > 0:
		id = wire.TopicID(s.topics.List()[0].Name)
	}
	s.l.watchdog.called.Store(markOf(id))
	s.l.watchdog.arm()
	s.handler.Other(d)
}

// report reports a running handler. If OnEvent is what runs, it is not called with the report.
func (w *watchdog) report(e events.Event, topic string) {
	report.HandlerSlow.Log(w.l.log, "handler", handlerText(topic), "so_far", e.For)
	w.l.counters.events[e.Kind].Add(1)
	w.l.recent.add(&w.l.clock, e, w.l.cfg.RecentEvents)
	if !w.emitting.TryLock() {
		return
	}
	defer w.emitting.Unlock()
	w.reporter.Store(gid.Self())
	defer w.reporter.Store(0)
	if w.l.cfg.Events != nil {
		w.l.cfg.Events(e)
	}
}

func topicsOf(topic string) []string {
	if topic == "" {
		return nil
	}
	return []string{topic}
}

func handlerText(topic string) string {
	if topic == "" {
		return "OnEvent"
	}
	return "of topic " + topic
}

// ErrInHandler is returned by a call in a handler, or in OnEvent, that would wait for its own bus: the bus waits for
// the handler.
var ErrInHandler = errors.New("called from a handler, or from OnEvent, whose bus waits for it: call it from another goroutine")

// onLoop reports whether the caller is the loop's goroutine.
func (l *Loop) onLoop() bool { return gid.Self() == l.watchdog.goroutine.Load() }

// within reports whether the caller is in a handler of this loop, in OnEvent, or in a Logger called by the loop or its
// transport.
func (w *watchdog) within() bool {
	id := gid.Self()
	return id == w.goroutine.Load() || id == w.reporter.Load()
}
