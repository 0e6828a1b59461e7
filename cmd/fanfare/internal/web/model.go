// Package web is the page that shows what goes on at the buses of a host, live: a server on localhost that reads the
// sockets of processes (package inspect) and sends it to browsers by server-sent events.
package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/histogram"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// counter is the place of a counter in totals, and of its rate in a point, from the second on.
type counter int

const (
	published counter = iota // messages
	delivered
	missing // packets
	repaired
	lost   // messages, or gaps of unknown size, permanently
	fabric // packets lost on the way, repaired or not
	here   // and on this host
	counters
)

type totals struct {
	n                   [counters]uint64
	repairs, deliveries []stats.Bucket
	rtt                 float64
}

type before struct {
	totals
	event  uint64
	socket string // that it was read at
}

type model struct {
	buses    map[losses.BusKey]before
	at       time.Time
	sequence uint64
	first    bool              // nothing was seen yet
	names    map[string]string // of processes that answer, or did before, by socket
	links    map[[2]string]carried
	events   map[string]event // the latest, by bus and Event.Same
}

func newModel() *model {
	return &model{buses: make(map[losses.BusKey]before), first: true, names: make(map[string]string),
		events: make(map[string]event)}
}

func (m *model) update(now time.Time, seen []inspect.Seen, err error) *Frame {
	m.sequence++
	f := emptyFrame(m.sequence)
	if err != nil {
		f.Error = err.Error()
	}
	report := losses.Make(seen, now.Add(-time.Hour), now)
	f.Verdict = report.Verdict()
	f.Lost, f.LostMessages, _ = report.Messages()
	f.LostPackets = report.Repairs.Lost
	for _, x := range report.Findings[:min(len(report.Findings), maxFindings)] {
		f.Findings = append(f.Findings, finding{
			x.Kind, x.Cause, x.First.UnixMilli(), x.Last.UnixMilli(), x.Title(), cmp.Or(x.Publisher, x.Subscriber, strings.Join(x.Sources, ", ")), x.Where(), x.Why, x.Do,
		})
	}
	seconds := now.Sub(m.at).Seconds()
	if m.first || seconds <= 0 {
		seconds = 0
	}
	var sum totals
	buses, names := make(map[losses.BusKey]before), make(map[string]string)
	for i := range seen {
		s := &seen[i]
		if s.Err != nil {
			name, known := m.names[s.Socket]
			if known {
				names[s.Socket] = name
			}
			f.Processes = append(f.Processes,
				process{Name: cmp.Or(name, s.Socket), Error: losses.Unanswered(s.Err), Buses: []bus{}})
			continue
		}
		names[s.Socket] = s.Snapshot.Process.Name()
		p := process{Name: s.Snapshot.Process.Name(), Buses: []bus{}}
		for j := range s.Snapshot.Buses {
			p.Buses = append(p.Buses, m.bus(f, now, s, &s.Snapshot.Buses[j], seconds, buses, &sum))
		}
		f.Processes = append(f.Processes, p)
	}
	if err != nil && len(seen) == 0 {
		names = m.names
	}
	m.keep(buses, seen, err)
	f.addUndetected(losses.FindUndetected(seen))
	f.Processes = f.Processes[:min(len(f.Processes), maxProcesses)]
	f.Point = sum.point(now, seconds)
	f.Map = draw(seen, now)
	m.flow(&f.Map, now, seconds)
	m.buses, m.names, m.at, m.first = buses, names, now, false
	rank := func(s slow) int { return slices.Index([]string{"loses", s.State}, s.State) } // permanent losses come first
	slices.SortStableFunc(f.Slow, func(a, b slow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Behind, a.Behind))
	})
	f.Slow = f.Slow[:min(len(f.Slow), maxSlow)]
	f.Events = slices.AppendSeq(f.Events, maps.Values(m.events))
	slices.SortFunc(f.Events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Text, b.Text))
	})
	for ; len(f.Events) > maxEvents; f.Events = f.Events[1:] {
		delete(m.events, f.Events[0].key)
	}
	return f
}

func (f *Frame) addUndetected(all []losses.Undetected) {
	for _, u := range all {
		for i := range f.Processes {
			for j := range f.Processes[i].Buses {
				if b := &f.Processes[i].Buses[j]; f.Processes[i].Name == u.Process && b.Name == u.Bus && b.Note == "" {
					b.Note = u.Text()
				}
			}
		}
	}
}

// keep adds to buses those at sockets that did not answer this time, and all where none could be asked.
func (m *model) keep(buses map[losses.BusKey]before, seen []inspect.Seen, err error) {
	deaf := make(map[string]bool)
	for i := range seen {
		if seen[i].Err != nil {
			deaf[seen[i].Socket] = true
		}
	}
	for k, b := range m.buses {
		if _, ok := buses[k]; !ok && (err != nil || deaf[b.socket]) {
			buses[k] = b
		}
	}
}

// bus takes in one bus, and adds to sum what it has counted since it was seen last.
func (m *model) bus(f *Frame, at time.Time, of *inspect.Seen, b *inspect.Bus, seconds float64,
	buses map[losses.BusKey]before, sum *totals) bus {
	s := of.Snapshot
	k := losses.KeyOf(&s.Process, b)
	old, had := m.buses[k]
	t := totalsOf(b)
	x := bus{Name: cmp.Or(b.Name, b.ID), URL: strings.Join(b.URLs, " + "), Note: cmp.Or(b.Ended, b.Incomplete)}
	for i := range b.Subscriptions {
		if h := losses.HearingOf(b, &b.Subscriptions[i]); x.Note == "" {
			x.Note = h.Text(&b.Subscriptions[i])
		}
	}
	if b.Closing && x.Note == "" {
		x.Note = "closing"
	}
	if b.Incomplete != "" && had { // it lacks counters
		t = old.totals
	}
	if had || !m.first && b.Since.After(m.at) { // otherwise all that it ever did would be of this second
		grown := t.since(&old.totals)
		sum.add(&grown)
		if seconds > 0 {
			rate := func(c counter) float64 { return float64(grown.n[c]) / seconds }
			x.Published, x.Delivered, x.Missing = rate(published), rate(delivered), rate(missing)
		}
	}
	now := before{totals: t, event: old.event, socket: of.Socket}
	where := s.Process.Name()
	for _, e := range b.NamedEvents() {
		if e.Sequence > old.event {
			now.event = max(now.event, e.Sequence)
			key := fmt.Sprint(k, e.Same())
			was := m.events[key]
			if !slices.Contains(was.groups, e.Group) && len(was.groups) < maxEvents {
				was.groups = append(was.groups, e.Group)
			}
			text := e.InGroups(len(was.groups))
			m.events[key] = event{e.Time.UnixMilli(), e.Kind, text, where, was.Times + 1, key, was.groups}
		}
	}
	f.Slow = append(f.Slow, slowOf(b, where, at)...)
	buses[k] = now
	return x
}

func totalsOf(b *inspect.Bus) totals {
	t := totals{repairs: b.Repair.Buckets, deliveries: b.Delivery.Buckets}
	for i := range b.Publications {
		p := &b.Publications[i]
		t.n[published] += p.Counters["messages_sent"]
		t.rtt = max(t.rtt, p.RTT)
	}
	for i := range b.Subscriptions {
		t.n[delivered] += b.Subscriptions[i].Messages
	}
	for i := range b.Groups {
		c := b.Groups[i].Counters
		t.n[missing] += c["missing"]
		t.n[repaired] += c["repaired"] + c["late"]
		t.n[here] += c["repaired"] + c["lost"]
	}
	for _, c := range b.Causes {
		t.n[lost] += max(c.Messages, c.Gaps)
		if c.Cause == "fabric" {
			t.n[fabric] = c.Dropped
		}
	}
	t.n[here] -= min(t.n[here], t.n[fabric])
	return t
}

func (t totals) since(old *totals) totals {
	for i, n := range old.n {
		t.n[i] = max(t.n[i], n) - n
	}
	t.repairs, t.deliveries = histogram.Since(t.repairs, old.repairs), histogram.Since(t.deliveries, old.deliveries)
	return t
}

func (t *totals) add(x *totals) {
	for i, n := range x.n {
		t.n[i] = inspect.Plus(t.n[i], n)
	}
	t.rtt = max(t.rtt, x.rtt)
	t.repairs, t.deliveries = histogram.Sum(t.repairs, x.repairs), histogram.Sum(t.deliveries, x.deliveries)
}

func (t *totals) point(now time.Time, seconds float64) []float64 {
	all := []float64{float64(now.UnixMilli())}
	for _, n := range t.n {
		rate := 0.0
		if seconds > 0 {
			rate = float64(n) / seconds
		}
		all = append(all, rate)
	}
	at := func(of []stats.Bucket, p float64) float64 { return stats.Quantile(of, p/100) * 1e6 }
	return append(all, at(t.repairs, 50), at(t.repairs, 90), at(t.repairs, 99), t.rtt, at(t.deliveries, 50),
		at(t.deliveries, 90), at(t.deliveries, 99))
}

func slowOf(b *inspect.Bus, where string, now time.Time) (all []slow) {
	for i := range b.Publications {
		p := &b.Publications[i]
		for j := range p.Subscribers {
			m := &p.Subscribers[j]
			x := slow{Name: cmp.Or(m.Name, m.ID), What: "of group " + p.Address, State: losses.SubscriberState(m), Behind: m.Behind, For: m.HeldFor, Where: where}
			if x.State == losses.Silent {
				x.For = m.Heard
			}
			if x.State != "" {
				all = append(all, x)
			}
		}
	}
	for _, e := range losses.GoneSubscribers(b, now) {
		all = append(all, slow{Name: cmp.Or(e.Name, e.Address), What: "of group " + e.Group, State: losses.Gone, Behind: e.Behind, For: max(0, now.Sub(e.Time).Seconds()) + e.For, Where: where})
	}
	for i := range b.Subscriptions {
		s := &b.Subscriptions[i]
		if state, p := losses.SubscriptionState(s); p != nil {
			all = append(all, slow{Name: strings.Join(s.Topics[:min(len(s.Topics), 3)], " "), What: "behind " + cmp.Or(p.Name, p.Publisher), State: state, Behind: uint64(p.Lag), For: p.Unread, Where: where})
		}
	}
	for _, x := range losses.LostLately(b, now) {
		if losses.ByReading(x.Cause) {
			what := "lost messages"
			if x.Messages > 0 {
				what = fmt.Sprintf("lost %d messages", x.Messages)
			}
			what += " of " + cmp.Or(x.PublisherName, x.Publisher, "others")
			all = append(all, slow{Name: cmp.Or(x.Subscription, "a subscription"), What: what, State: "loses", Where: where})
		}
	}
	return all
}

// Frame is what browsers get each second. Data from the wire may be hostile: the page shows it as text.
type Frame struct {
	Sequence     uint64    `json:"sequence"`
	Point        []float64 `json:"point"` // milliseconds since 1970, the rates of counters, and times in microseconds (point)
	Verdict      string    `json:"verdict"`
	Lost         uint64    `json:"lost"`          // gaps of the last hour
	LostMessages uint64    `json:"lost_messages"` // in them, as far as known
	LostPackets  uint64    `json:"lost_packets"`  // given up
	Findings     []finding `json:"findings"`
	Slow         []slow    `json:"slow"`
	Processes    []process `json:"processes"`
	Map          picture   `json:"map"`
	Events       []event   `json:"events"` // the last maxEvents
	Error        string    `json:"error,omitempty"`
}

type finding struct {
	Kind  losses.Kind `json:"kind"`
	Cause string      `json:"cause"`
	First int64       `json:"first"`
	Last  int64       `json:"last"`
	Title string      `json:"title"`
	Name  string      `json:"who"`
	Where string      `json:"where"`
	Why   string      `json:"why"`
	Do    string      `json:"do"`
}

type process struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
	Buses []bus  `json:"buses"`
}

type bus struct {
	Name      string  `json:"name"`
	URL       string  `json:"url"`
	Published float64 `json:"published"`
	Delivered float64 `json:"delivered"`
	Missing   float64 `json:"missing"`
	Note      string  `json:"note,omitempty"`
}

type slow struct {
	Name   string  `json:"who"`
	What   string  `json:"what"`
	State  string  `json:"state"` // losses.SubscriberState, SubscriptionState; or loses: permanently, because of that
	Behind uint64  `json:"behind"`
	For    float64 `json:"for"` // seconds
	Where  string  `json:"where"`
}

type event struct {
	At    int64  `json:"at"`
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Where string `json:"where"`
	Times uint64 `json:"times"` // of one kind, peer and cause; the rest is of the latest

	key    string
	groups []string // in which it happened
}

const (
	maxFindings  = 40
	maxSlow      = 20
	maxProcesses = 64
	maxEvents    = 100
	maxPoints    = 900
	numbers      = 15 // of a point
)

// marshal is the frame for browsers. In place of one that cannot be written they get its error.
func (f *Frame) marshal() (*Frame, []byte) {
	text, err := json.Marshal(f)
	if err == nil {
		return f, text
	}
	instead := emptyFrame(f.Sequence)
	instead.Error = "what they say cannot be shown: " + err.Error()
	instead.Point = make([]float64, numbers)
	instead.Point[0] = float64(time.Now().UnixMilli())
	if len(f.Point) > 0 {
		instead.Point[0] = f.Point[0]
	}
	if text, err = json.Marshal(instead); err != nil {
		panic(err) // there is nothing in it but this text and zeros
	}
	return instead, text
}

// emptyFrame is one of which nothing is known yet. Its lists are there: the page goes through them.
func emptyFrame(sequence uint64) *Frame {
	return &Frame{Sequence: sequence, Findings: []finding{}, Slow: []slow{}, Processes: []process{},
		Map: draw(nil, time.Time{}), Events: []event{}}
}
