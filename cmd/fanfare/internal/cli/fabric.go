package cli

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// jsonLeg holds the counters of one leg, if the fabric has several URLs.
type jsonLeg struct {
	URL              string  `json:"url"`
	Up               bool    `json:"up"`
	Packets          uint64  `json:"packets"` // received on this leg
	Copies           uint64  `json:"copies"`  // of them, packets that another leg had delivered before
	Lost             uint64  `json:"lost"`
	Filled           uint64  `json:"filled"` // lost here and received on another leg
	Falls            uint64  `json:"falls"`  // times that this leg received nothing while another did
	Unsent           uint64  `json:"unsent"` // packets that were sent on other legs only
	SkewMicroseconds float64 `json:"skew_us"`
}

func legsOf(st *stats.Bus) (all []jsonLeg) {
	for _, l := range st.Legs {
		all = append(all, jsonLeg{l.URL, l.Up, l.Packets, l.Copies, l.Lost, l.Filled, l.Falls, l.Unsent, micro(l.Skew)})
	}
	return all
}

func (c *common) reportLegs(e *env, legs []jsonLeg) {
	for i, l := range legs {
		up := ""
		if !l.Up {
			up = "down"
		}
		prefix := ""
		if l.Packets > 0 || l.Lost > 0 {
			prefix = fmt.Sprintf("%s received, %d lost, of them %d received on another leg", count(l.Packets, "packet"), l.Lost, l.Filled)
		}
		falls := some(l.Falls, "time")
		if falls != "" {
			falls = "silent " + falls
		}
		if text := list(up, prefix, falls, someThat(l.Unsent, "packet", "not sent on it")); text != "" {
			e.console.line("leg %d, %s: %s", i+1, l.URL, text)
		}
	}
}

// fabricEvent reports events of the fabric: a leg or group is down or back, nothing can be sent, packets cannot be
// opened, new processes cannot discover this bus. It remembers buses with a different configuration.
func (c *common) fabricEvent(e *env, ev events.Event) {
	c.unreadable.event(e, ev)
	if m := separating(ev); m != nil && ev.Relevant {
		c.apart.Store(m)
	}
	switch ev.Kind {
	case events.LegDown, events.LegBack:
		e.console.line("%v", ev)
	case events.Unfindable:
		e.console.line("%v", ev.Err)
	case events.GroupLost, events.GroupBack:
		if text := c.memberships.event(ev, time.Now()); text != "" {
			e.console.line("%s", text)
		}
	case events.CannotSend:
		e.console.line("sending has failed for %v, %s waiting: %v", ev.For.Round(10*time.Millisecond), count(ev.Behind, "packet"), ev.Err)
	case events.SendsAgain:
		e.console.line("sending again, after %v", ev.For.Round(10*time.Millisecond))
	}
}

// memberships tracks the groups that a bus has lost. Only the first is reported, because a failed interface loses all
// groups.
type memberships struct {
	mu    sync.Mutex
	lost  map[string]int // by group: the publisher's membership and the subscriptions' count separately
	since time.Time      // of the first loss
	max   int            // groups lost at a time
}

// event is the line to write for an event at time now, or empty.
func (m *memberships) event(e events.Event, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case events.GroupLost:
		first := len(m.lost) == 0
		if first {
			m.lost, m.since, m.max = make(map[string]int), now, 0
		}
		m.lost[e.Group]++
		m.max = max(m.max, len(m.lost))
		if first {
			return fmt.Sprintf("group %s is lost: %v: it receives and sends nothing until it is joined again", e.Group, e.Err)
		}
	case events.GroupBack:
		if m.lost[e.Group] == 0 {
			break
		}
		if m.lost[e.Group]--; m.lost[e.Group] > 0 {
			break
		}
		if delete(m.lost, e.Group); len(m.lost) > 0 {
			break
		}
		d := now.Sub(m.since).Round(10 * time.Millisecond)
		if m.max == 1 {
			return fmt.Sprintf("group %s is joined again, after %v", e.Group, d)
		}
		return fmt.Sprintf("all %d groups are joined again, after %v", m.max, d)
	}
	return ""
}

// unreadable remembers why a bus cannot open the packets that it receives: the first error.
type unreadable struct {
	first atomic.Pointer[pubsub.UnreadableError]
	clock atomic.Uint64 // a publisher declared lost because the timestamps of its heartbeats did not increase
}

func (u *unreadable) event(e *env, ev events.Event) {
	var err *pubsub.UnreadableError
	if ev.Kind == events.PacketsUnreadable && errors.As(ev.Err, &err) {
		u.first.CompareAndSwap(nil, err)
		e.console.peerLine("%v", err)
	}
	var fault *events.FaultError
	if ev.Kind == events.PublisherFault && errors.As(ev.Err, &fault) && fault.Fault == events.FaultClock {
		u.clock.Store(uint64(fault.Publisher))
	}
}

func (u *unreadable) lost(e *pubsub.PublisherEvent) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	if u.clock.Load() == uint64(e.Publisher) {
		return "its heartbeats are received, but their timestamps do not increase: its clock stopped or went back, or old heartbeats are replayed"
	}
	err := u.first.Load()
	if err == nil {
		return "it was killed, stopped or disconnected"
	}
	switch err.Reason {
	case transport.UnreadableKey, transport.UnreadableExpired:
		return fmt.Sprintf("it may now seal with key %v, which is missing or not valid here", pubsub.KeyID(err.Key))
	}
	return "it was killed, stopped or disconnected, or its packets cannot be opened"
}

// instead is the error of a command that received only packets it could not open; otherwise nil.
func (u *unreadable) onlyUnreadable(text string) error {
	if err := u.first.Load(); err != nil {
		return &exitError{exitMismatch, fmt.Errorf("%s: %w", text, err)}
	}
	return nil
}

// Other processes with a different configuration: how pub, sub and ping handle them.

const exitMismatch = 3

var mismatchExit = word{"3", "the other side has a different configuration (such as groups= in -t, or keys), so the messages or subscribers waited for cannot arrive; " +
	"standard error names the difference"}

type jsonMismatch struct {
	Type        string           `json:"type"` // "mismatch"
	Publisher   string           `json:"publisher"`
	Name        string           `json:"name"`
	Address     string           `json:"address"`
	Relevant    bool             `json:"relevant"` // it may publish or subscribe to our topics
	Differences []jsonDifference `json:"differences"`
}

type jsonDifference struct {
	Field    events.ConfigField `json:"field"`
	Ours     string             `json:"ours"`
	Theirs   string             `json:"theirs"`
	Harmless bool               `json:"harmless"`
	Do       string             `json:"do,omitempty"`
}

func mismatchAsJSON(m *events.ConfigMismatchError, relevant bool) *jsonMismatch {
	out := &jsonMismatch{Type: "mismatch", Publisher: m.Publisher.String(), Name: m.Name, Address: m.Address, Relevant: relevant}
	for _, d := range m.Differences {
		out.Differences = append(out.Differences, jsonDifference{d.Field, d.Ours, d.Theirs, d.Harmless, d.Advice})
	}
	return out
}

// separating returns the mismatch of an event if it separates the two sides, or nil.
func separating(e events.Event) *events.ConfigMismatchError {
	var m *events.ConfigMismatchError
	if errors.As(e.Err, &m) && !m.Harmless() {
		return m
	}
	return nil
}

// mismatchError gives a mismatch that made waiting fail its own exit code.
func mismatchError(err error) error {
	var m *events.ConfigMismatchError
	if errors.As(err, &m) {
		return &exitError{exitMismatch, err}
	}
	return err
}

// ownTexts are the warnings of a bus that a command replaces by its own lines. All others are written unchanged.
type ownTexts map[string]bool

// Warnings that commands replace: those of fabricEvent in all commands that have a bus, and some more.
var (
	fabricWords = owned(nil,
		&report.PacketsUnreadable, &report.LegDown, &report.LegsDown, &report.LegSilent,
		&report.Unfindable, &report.GroupLost, &report.CannotSend, &report.SendsAgain, &report.LegBack,
		&report.HandlerSlow, &report.HandlerReturned) // of events: the handler waits for a slow reader of the output
	mismatchWords = owned(fabricWords, &report.Mismatch) // ping, request, ls
	pubWords      = owned(mismatchWords, &report.StoodStill,
		&report.SubscriberSilent, &report.SubscriberCutOff, &report.SubscriberReleased, &report.SlowSubscriber,
		&report.PublisherStalled, &report.StalledBySilence, &report.StalledByLoss, &report.PublisherResumed)
	subWords = owned(mismatchWords, &report.StoodStill,
		&report.PublisherLost, &report.PublisherCutOff, &report.PublisherBack, &report.PublisherRefused,
		&report.PublisherFault, &report.DuplicateName, &report.TopicRefused, &report.PacketsLost,
		&report.SubscriptionNotRead, &report.SubscriptionEvicted,
		&report.HoldsByReading, &report.HoldsByHandling, &report.HoldsByLoss,
		&report.ReleasedForReading, &report.ReleasedForHandling, &report.ReleasedForLoss)
	replyWords = owned(fabricWords, &report.PublisherRefused, &report.PacketsLost) // losses are gaps
	dictWords  = owned(fabricWords, &report.PacketsLost)                           // dictWords: it only takes samples
)

func owned(base ownTexts, lines ...*report.Line) ownTexts {
	own := make(ownTexts)
	for text := range base {
		own[text] = true
	}
	for _, l := range lines {
		own[l.Text] = true
	}
	return own
}

const waitNotice = 2 * time.Second // time until a command reports what it waits for

type fabricInside interface {
	Users() int     // endpoints that are open
	Joined() uint64 // endpoints ever opened
}

// fabricOf finds the fabric within this process that a URL names; nil for other kinds.
func fabricOf(rawURL string) (scheme string, f fabricInside) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", nil
	}
	switch u.Scheme {
	case "sim":
		if subnet := simnet.Lookup(u.Hostname()); subnet != nil {
			return u.Scheme, subnet
		}
	case "mem":
		if network := mem.Lookup(u.Host); network != nil {
			return u.Scheme, network
		}
	}
	return "", nil
}

// watchInProcess reports once that the command's bus is on a fabric within this process and that no
// other bus has joined: publisher and subscriber in two commands would wait forever. It reports
// after waitNotice, or when the returned function ends the watch.
func (c *common) watchInProcess(e *env) (end func()) {
	scheme, f := fabricOf(c.urls[0])
	if f == nil || f.Users() > 1 || c.quiet {
		return func() {}
	}
	joined := f.Joined()
	warn := sync.OnceFunc(func() {
		if f.Joined() == joined {
			e.console.line("%s:// exists within this process only, and this is its only bus: 'fanfare demo' runs both sides", scheme)
		}
	})
	timer := time.AfterFunc(waitNotice, warn)
	return func() {
		timer.Stop()
		warn()
	}
}
