package losses

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
)

type Kind string

const (
	// Lost: subscriptions of this host had gaps.
	Lost Kind = "lost"
	// Happened: an event that accompanies losses, possibly on other hosts.
	Happened Kind = "event"
	// Hint: nothing is lost so far. No peer is detected, which may be intended (Undetected), or a
	// subscriber reads too slowly.
	Hint Kind = "hint"
	// Dropped: packets were lost on the network or dropped here. If they were not repaired, a finding Lost exists, too.
	Dropped Kind = "dropped"
)

// Finding is the losses of one cause in one bus: those of a publisher to a subscription, or events of one subscriber.
type Finding struct {
	Kind    Kind      `json:"type"`
	Cause   string    `json:"cause"` // label of a cause or an event
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Process string    `json:"process"` // program and process id
	Bus     string    `json:"bus"`     // its name, or its id
	// Publisher and Subscriber are name or id, and address, if known.
	Publisher    string    `json:"from,omitempty"`
	Subscriber   string    `json:"peer,omitempty"`
	PublisherID  string    `json:"publisher,omitempty"`
	Epoch        events.ID `json:"epoch,omitempty"` // of the publisher at the latest loss
	SubscriberID string    `json:"subscriber,omitempty"`
	// Subscription is the topics of the subscription that lost messages. Topics are the first few
	// topics that lost messages, OtherTopics at least how many more there are.
	Subscription string   `json:"subscription,omitempty"`
	Topics       []string `json:"topics,omitempty"`
	OtherTopics  int      `json:"other_topics,omitempty"`
	Group        string   `json:"group,omitempty"`
	Leg          string   `json:"leg,omitempty"`
	// For is the duration of the latest event, and Behind how many packets its subscriber was behind; 0: unknown.
	For    float64 `json:"for_s,omitempty"`
	Behind uint64  `json:"behind_packets,omitempty"`
	// Times is the number of gaps or events, Messages the number of messages lost in gaps of known
	// size, Unknown the number of gaps of unknown size.
	Times    uint64 `json:"times,omitempty"`
	Messages uint64 `json:"messages,omitempty"`
	Unknown  uint64 `json:"gaps_unknown,omitempty"`
	Packets  uint64 `json:"packets,omitempty"` // with Dropped
	// Sources are the sources of missing packets: with Dropped and cause fabric.
	Sources []string `json:"ways,omitempty"`
	Why     string   `json:"why"`
	Do      string   `json:"do"`

	standstill bool // the process did not run at that time
	idle       bool // Evidence.Idle
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

type Process struct {
	Name  string    `json:"process"`
	Buses int       `json:"buses"`
	From  time.Time `json:"from"` // when the record of its oldest bus begins
}

// Repairs counts packets that were missing on the way.
type Repairs struct {
	Missing  uint64 `json:"missing_packets"`
	Repaired uint64 `json:"repaired_packets"`
	Late     uint64 `json:"late_packets"` // arrived by themselves
	Lost     uint64 `json:"lost_packets"` // permanently
}

func (r *Repairs) Add(x Repairs) {
	r.Missing, r.Repaired = inspect.Plus(r.Missing, x.Missing), inspect.Plus(r.Repaired, x.Repaired)
	r.Late, r.Lost = inspect.Plus(r.Late, x.Late), inspect.Plus(r.Lost, x.Lost)
}

type Report struct {
	From, To  time.Time
	Processes []Process
	Unread    []string // processes that could not be read, with the error
	Findings  []Finding
	Repairs   Repairs
	// Unlisted is the number of losses that are only in sums, because their causes were too frequent.
	Unlisted uint64
}

const topicsListed = 4

func Make(seen []inspect.Seen, since, now time.Time) *Report {
	r := &Report{From: since, To: now}
	for i := range seen {
		s := &seen[i]
		if s.Err != nil {
			r.Unread = append(r.Unread, s.Socket+": "+Unanswered(s.Err))
			continue
		}
		if !s.Snapshot.Process.Heard() {
			r.process(s.Snapshot)
		}
	}
	r.undetected(seen)
	r.slow(seen)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), a.First.Compare(b.First))
	})
	return r
}

func Buses(seen []inspect.Seen) iter.Seq2[*inspect.Process, *inspect.Bus] {
	return func(yield func(*inspect.Process, *inspect.Bus) bool) {
		for _, s := range seen {
			for i := 0; s.Snapshot != nil && i < len(s.Snapshot.Buses); i++ {
				if !yield(&s.Snapshot.Process, &s.Snapshot.Buses[i]) {
					return
				}
			}
		}
	}
}

func Unanswered(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "no answer: it is stopped or gets no processor time"
	}
	return err.Error()
}

func rank(k Kind) int { return slices.Index([]Kind{Lost, Happened, Hint, Dropped}, k) }

// Messages returns the number of gaps, the messages lost in gaps of known size, and the gaps of unknown size.
func (r *Report) Messages() (gaps, messages, unknown uint64) {
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Kind == Lost {
			gaps, messages, unknown = inspect.Plus(gaps, f.Times), inspect.Plus(messages, f.Messages),
				inspect.Plus(unknown, f.Unknown)
		}
	}
	return gaps, messages, unknown
}

func (r *Report) Of(k Kind) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Kind != k })
}

func (r *Report) process(s *inspect.Snapshot) {
	p := Process{Name: s.Process.Name(), Buses: len(s.Buses), From: r.To}
	for i := range s.Buses {
		b := &s.Buses[i]
		if b.Losses == nil {
			continue
		}
		if b.Losses.From.Before(p.From) {
			p.From = b.Losses.From
		}
		r.bus(&host{p.Name, s.Host.ReceiveBufferMax, r.From, b})
	}
	r.Processes = append(r.Processes, p)
}

type host struct {
	process   string
	bufferMax int
	from      time.Time // start of the reported period
	*inspect.Bus
}

func (h *host) evidence(f *Finding, address, err string) Evidence {
	e := Evidence{
		Publisher: f.Publisher, Address: address, Subscriber: f.Subscriber,
		Reader: f.Subscription, Process: f.Process, Leg: f.Leg, BufferMax: h.bufferMax, Err: err,
	}
	for _, x := range h.Fabric.Buffers { // the smallest buffer
		if e.Granted == 0 || x.ReceiveGranted < e.Granted {
			e.Asked, e.Granted = x.ReceiveAsked, x.ReceiveGranted
		}
	}
	for _, url := range h.URLs[:min(len(h.URLs), transport.MaxLegs)] { // a process may report more
		if dir, ok := fabricurl.SharedDir(url); ok && !slices.Contains(e.Shared, dir) {
			e.Shared = append(e.Shared, dir)
		}
	}
	return e
}

func (r *Report) bus(h *host) {
	type key struct {
		event                                 bool
		cause, publisher, sub, subscribe, leg string
	}
	found, first := make(map[key]int), len(r.Findings)
	for i := range h.Losses.Losses {
		x := &h.Losses.Losses[i]
		if x.Last.Before(h.from) {
			continue
		}
		k := key{x.Event, x.Cause, peerText(x.PublisherName, x.Publisher, x.Address), x.Subscriber, x.Subscription, x.Leg}
		at, ok := found[k]
		if !ok {
			at = len(r.Findings)
			found[k] = at
			r.Findings = append(r.Findings, h.finding(x))
		}
		r.Findings[at].add(x)
	}
	for _, o := range h.Losses.Older {
		if !o.Last.Before(h.from) {
			r.Unlisted = inspect.Plus(r.Unlisted, o.Times)
			r.Findings = append(r.Findings, h.older(&o))
		}
	}
	r.dropped(h)
	stoodStill(r.Findings[first:])
}

// stoodStill adds to losses during or just after a standstill of the process that it may be the cause.
func stoodStill(of []Finding) {
	var stops []*Finding
	for i := range of {
		if of[i].Cause == "stood_still" && len(stops) < maxStops {
			stops = append(stops, &of[i])
		}
	}
	for _, s := range stops {
		for j := range of {
			f := &of[j]
			here := f.Kind == Lost || f.idle || slices.Contains([]string{"socket_overflow", "receive_queue_empty", "overrun"}, f.Cause)
			if here && !f.standstill && !f.Last.Before(s.First.Add(-seconds(s.For))) && f.First.Before(s.Last.Add(time.Minute)) {
				if f.standstill = true; f.idle {
					f.Why = "A publisher released this bus: this process did not run."
				}
				f.Do = fmt.Sprintf("First find out why this process did not run for %v until %s: that may be the only cause. ", seconds(s.For).Round(100*time.Millisecond), s.Last.Local().Format("15:04:05")) + f.Do
			}
		}
	}
}

const maxStops = 16

func (h *host) begin(kind Kind, cause string, first, last time.Time) Finding {
	return Finding{Kind: kind, Cause: cause, First: first, Last: last, Process: h.process,
		Bus: cmp.Or(h.Name, h.ID), Why: Why(cause)}
}

func (h *host) finding(x *inspect.Loss) Finding {
	f := h.begin(Lost, x.Cause, x.First, x.Last)
	f.Subscription, f.Group, f.Leg = x.Subscription, x.Group, x.Leg
	f.PublisherID, f.Epoch, f.SubscriberID = x.Publisher, x.Epoch, x.Subscriber
	if x.Event {
		f.Kind = Happened
	}
	if x.Subscriber != "" {
		f.Subscriber = peerText(x.SubscriberName, x.Subscriber, x.Address)
	} else {
		f.Publisher = peerText(x.PublisherName, x.Publisher, x.Address)
	}
	err := x.Error
	for _, y := range h.Losses.Losses { // a gap by the loss of a publisher has the reason of that event
		if !x.Event && y.Event && y.Cause == x.Cause && y.Publisher == x.Publisher && !y.First.After(x.Last) {
			err = y.Error
		}
	}
	e := h.evidence(&f, x.Address, err)
	if e.Idle = h.idle(x); e.Idle {
		f.idle, f.Why = true, "A publisher released this bus: packets did not arrive here."
	}
	f.Do = Do(x.Cause, e)
	switch {
	case strings.HasSuffix(err, report.NoLeg):
		f.Why = report.LegsDown.Why()
	case err != "" && (x.Cause == "publisher_lost" || x.Cause == "subscriber_silent"):
		f.Why = "This bus was cut off from the group."
	}
	return f
}

// idle reports whether the publisher of a loss released the bus for another reason than slow reading: the event then
// names no subscription.
func (h *host) idle(of *inspect.Loss) bool {
	const released = "released_by_a_publisher"
	if of.Cause != released && of.Cause != "released" {
		return false
	}
	return slices.ContainsFunc(h.Losses.Losses, func(x inspect.Loss) bool {
		return x.Event && x.Cause == released && x.Publisher == of.Publisher && x.Subscription == ""
	})
}

func (f *Finding) add(x *inspect.Loss) {
	if x.First.Before(f.First) {
		f.First = x.First
	}
	if x.Last.After(f.Last) {
		f.Last, f.Epoch = x.Last, x.Epoch
	}
	if x.Event {
		f.For, f.Behind = x.For, x.Behind
	}
	f.Times += x.Times
	f.Messages += x.Messages
	f.Unknown += x.Unknown
	if x.Topic == "" || slices.Contains(f.Topics, x.Topic) {
		return
	}
	if len(f.Topics) == topicsListed {
		f.OtherTopics++
		return
	}
	f.Topics = append(f.Topics, x.Topic)
}

func (h *host) older(o *stats.OlderLosses) Finding {
	f := h.begin(Lost, o.Cause, o.First, o.Last)
	f.Times, f.Messages = o.Times, o.Messages
	if isEvent(o.Cause) && Causes()[o.Cause].Label == "" {
		f.Kind = Happened
	}
	f.Do = Do(o.Cause, h.evidence(&f, "", ""))
	return f
}

// quietCauses are causes without loss for a subscription here, or causes of packets that a gap
// reports and that were not lost on the network.
var quietCauses = []string{"filtered", "slow_consumer"}

func (r *Report) dropped(h *host) {
	causes := make(map[string]int)
	sources := make(map[string]uint64)
	addresses := make(map[string]string)
	var list []string
	for i := range h.Losses.Minutes {
		m := &h.Losses.Minutes[i]
		end := m.Start.Add(time.Minute)
		if !end.After(h.from) {
			continue
		}
		r.Repairs.Add(Repairs{m.Missing, m.Repaired, m.Late, 0})
		for _, c := range m.Causes {
			r.Repairs.Add(Repairs{Lost: c.Lost})
			if c.Dropped == 0 || slices.Contains(quietCauses, c.Cause) {
				continue
			}
			at, ok := causes[c.Cause]
			if !ok {
				at = len(r.Findings)
				causes[c.Cause] = at
				f := h.begin(Dropped, c.Cause, m.Start, end)
				f.Do = Do(c.Cause, h.evidence(&f, "", ""))
				r.Findings = append(r.Findings, f)
			}
			f := &r.Findings[at]
			f.Last = end
			f.Packets += c.Dropped
		}
		for _, w := range m.Ways {
			from := peerText(w.Name, w.Publisher.String(), w.Address)
			if sources[from] == 0 {
				list = append(list, from)
				addresses[from] = w.Address
			}
			sources[from] += w.Repaired + w.Lost
		}
	}
	if at, ok := causes["fabric"]; ok {
		slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(sources[b], sources[a]) })
		f := &r.Findings[at]
		for _, from := range list[:min(len(list), 4)] {
			f.Sources = append(f.Sources, fmt.Sprintf("%s (%d)", from, sources[from]))
		}
		if len(list) > 0 {
			if len(list) == 1 {
				f.Publisher = list[0]
			}
			f.Do = Do(f.Cause, h.evidence(f, addresses[list[0]], "")) // the source of most losses
		}
	}
}

// peerText is the text for a publisher or subscriber: name, id and address, if known.
func peerText(name, id, address string) string {
	text := cmp.Or(name, id, address)
	if address != "" && text != address {
		text += " at " + address
	}
	return cmp.Or(text, address)
}
