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

// jsonLeg is what one leg did, where the fabric was given by several URLs.
type jsonLeg struct {
	URL              string  `json:"url"`
	Up               bool    `json:"up"`
	Packets          uint64  `json:"packets"` // that it brought
	Copies           uint64  `json:"copies"`  // of them, those that another had brought
	Lost             uint64  `json:"lost"`
	Filled           uint64  `json:"filled"` // of those lost, by another
	Falls            uint64  `json:"falls"`  // times that it fell silent while another was heard
	Unsent           uint64  `json:"unsent"` // packets that went out on others only
	SkewMicroseconds float64 `json:"skew_us"`
}

func legsOf(st *stats.Bus) (all []jsonLeg) {
	for _, l := range st.Legs {
		all = append(all, jsonLeg{l.URL, l.Up, l.Packets, l.Copies, l.Lost, l.Filled, l.Falls, l.Unsent, micro(l.Skew)})
	}
	return all
}

func (c *common) sayLegs(e *env, legs []jsonLeg) {
	for i, l := range legs {
		up := ""
		if !l.Up {
			up = "down"
		}
		brought := ""
		if l.Packets > 0 || l.Lost > 0 {
			brought = fmt.Sprintf("%s brought, %d lost, of them %d filled by another leg", count(l.Packets, "packet"), l.Lost, l.Filled)
		}
		falls := some(l.Falls, "time")
		if falls != "" {
			falls = "silent " + falls
		}
		if text := list(up, brought, falls, someThat(l.Unsent, "packet", "not sent by it")); text != "" {
			e.console.line("leg %d, %s: %s", i+1, l.URL, text)
		}
	}
}

// fabricEvent says that a leg or a group is down, or back, that nothing can be sent, that packets cannot
// be opened, and that new processes cannot discover this bus. It remembers buses that are configured differently.
func (c *common) fabricEvent(e *env, ev events.Event) {
	c.unreadable.event(e, ev)
	if m := apart(ev); m != nil && ev.Relevant {
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
		e.console.line("nothing could be sent for %v, %s waiting: %v", ev.For.Round(10*time.Millisecond), count(ev.Behind, "packet"), ev.Err)
	case events.SendsAgain:
		e.console.line("sending again, after %v", ev.For.Round(10*time.Millisecond))
	}
}

// memberships follows the groups that a bus has lost: the first is said, for an interface takes all with it.
type memberships struct {
	mu    sync.Mutex
	away  map[string]int // times that a group is: once for its publisher, once for its subscriptions
	since time.Time      // the first was lost
	most  int            // groups
}

// event is the line to write of an event at now, empty where there is none.
func (m *memberships) event(e events.Event, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case events.GroupLost:
		first := len(m.away) == 0
		if first {
			m.away, m.since, m.most = make(map[string]int), now, 0
		}
		m.away[e.Group]++
		m.most = max(m.most, len(m.away))
		if first {
			return fmt.Sprintf("group %s is lost: %v: nothing comes or goes by it until it is joined again", e.Group, e.Err)
		}
	case events.GroupBack:
		if m.away[e.Group] == 0 {
			break
		}
		if m.away[e.Group]--; m.away[e.Group] > 0 {
			break
		}
		if delete(m.away, e.Group); len(m.away) > 0 {
			break
		}
		d := now.Sub(m.since).Round(10 * time.Millisecond)
		if m.most == 1 {
			return fmt.Sprintf("group %s is joined again, after %v", e.Group, d)
		}
		return fmt.Sprintf("all %d groups are joined again, after %v", m.most, d)
	}
	return ""
}

// unreadable is why a command's bus cannot open packets that come: as of the first of them.
type unreadable struct {
	first atomic.Pointer[pubsub.UnreadableError]
	clock atomic.Uint64 // the publisher that was lost because the times of its heartbeats did not grow
}

func (u *unreadable) event(e *env, ev events.Event) {
	var err *pubsub.UnreadableError
	if ev.Kind == events.PacketsUnreadable && errors.As(ev.Err, &err) {
		u.first.CompareAndSwap(nil, err)
		e.console.heard("%v", err)
	}
	var fault *events.FaultError
	if ev.Kind == events.PublisherFault && errors.As(ev.Err, &fault) && fault.Fault == events.FaultClock {
		u.clock.Store(uint64(fault.Publisher))
	}
}

func (u *unreadable) lost(publisher pubsub.PublisherID) string {
	if u.clock.Load() == uint64(publisher) {
		return "heartbeats of it come, but their times do not grow: its clock stands still or goes back, or old ones are played back"
	}
	err := u.first.Load()
	if err == nil {
		return "it was killed, or cut off"
	}
	switch err.Reason {
	case transport.UnreadableKey, transport.UnreadableExpired:
		return fmt.Sprintf("it may be sealing with key %v now, which is not here, or not valid", pubsub.KeyID(err.Key))
	}
	return "it was killed or cut off, or its packets cannot be opened"
}

// instead is the error of a command that has heard nothing else, nil if that is not why.
func (u *unreadable) instead(heard string) error {
	if err := u.first.Load(); err != nil {
		return &exitError{exitMismatch, fmt.Errorf("%s: %w", heard, err)}
	}
	return nil
}

// Another process that is configured differently: what pub, sub and ping make of it.

const exitMismatch = 3

var mismatchExit = word{"3", "what was waited for cannot come: the other side is configured differently (such as another groups= in its -t, or other keys); " +
	"the line says how"}

type jsonMismatch struct {
	Type        string           `json:"type"` // "mismatch"
	Publisher   string           `json:"publisher"`
	Name        string           `json:"name"`
	Address     string           `json:"address"`
	Relevant    bool             `json:"relevant"` // it may publish our topics, or subscribe to them
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

// apart returns the mismatch of an event that keeps the two sides apart, or nil.
func apart(e events.Event) *events.ConfigMismatchError {
	var m *events.ConfigMismatchError
	if errors.As(e.Err, &m) && !m.Harmless() {
		return m
	}
	return nil
}

// cannotCome gives a mismatch that was waited for in vain an exit code of its own.
func cannotCome(err error) error {
	var m *events.ConfigMismatchError
	if errors.As(err, &m) {
		return &exitError{exitMismatch, err}
	}
	return err
}

// ownWords are the warnings of a bus that a command says in its own words. Others are written as they come.
type ownWords map[string]bool

// What commands say in their own words: all that have a bus, by fabricEvent, and some beside.
var (
	fabricWords = owned(nil,
		&report.PacketsUnreadable, &report.LegDown, &report.LegSilent,
		&report.Unfindable, &report.GroupLost, &report.CannotSend,
		&report.HandlerSlow, &report.HandlerReturned) // of events: it waits for the output, which takes no more
	mismatchWords = owned(fabricWords, &report.Mismatch) // ping, request, ls
	pubWords      = owned(mismatchWords, &report.StoodStill,
		&report.SubscriberSilent, &report.SubscriberReleased,
		&report.SlowSubscriber, &report.PublisherStalled, &report.PublisherResumed)
	subWords = owned(mismatchWords, &report.StoodStill,
		&report.PublisherLost, &report.PublisherRefused, &report.PublisherFault,
		&report.DuplicateName, &report.TopicRefused, &report.PacketsLost,
		&report.SubscriptionNotRead, &report.SubscriptionEvicted,
		&report.HoldsByReading, &report.HoldsByHandling, &report.HoldsByLoss,
		&report.ReleasedForReading, &report.ReleasedForHandling, &report.ReleasedForLoss)
	replyWords = owned(fabricWords, &report.PublisherRefused, &report.PacketsLost) // it complains of them, as of gaps
	dictWords  = owned(fabricWords, &report.PacketsLost)                           // it takes samples
)

func owned(base ownWords, lines ...*report.Line) ownWords {
	own := make(ownWords)
	for text := range base {
		own[text] = true
	}
	for _, l := range lines {
		own[l.Text] = true
	}
	return own
}

const sayWaiting = 2 * time.Second // after how long a command says what it waits for

type fabricInside interface {
	Users() int     // endpoints that are on it
	Joined() uint64 // endpoints that ever came to it
}

// fabricOf finds the fabric within the process that a URL names; nil if it is of another kind.
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

// watchAlone says once that the command's bus is on a fabric within the process and that
// no other bus came to it: publisher and subscriber started as two commands would wait
// for ever. It does so after sayWaiting, or when the returned function ends the watch.
func (c *common) watchAlone(e *env) (end func()) {
	scheme, f := fabricOf(c.urls[0])
	if f == nil || f.Users() > 1 || c.quiet {
		return func() {}
	}
	joined := f.Joined()
	say := sync.OnceFunc(func() {
		if f.Joined() == joined {
			e.console.line("%s:// is within this process, and this is its only bus: fanfare demo has both sides", scheme)
		}
	})
	timer := time.AfterFunc(sayWaiting, say)
	return func() {
		timer.Stop()
		say()
	}
}
