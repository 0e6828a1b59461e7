// Package lossrecord stores the losses of a bus in the last hour: each loss with its circumstances, and the sums of
// every minute. It has no clock: each call passes the time.
package lossrecord

import (
	"slices"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The bounds of a Record. It uses about 300 bytes per loss, and at most 750 KiB if all existing causes have occurred 64
// times.
const (
	// Kept is the time for which losses are stored.
	Kept = time.Hour
	// MaxEntries is the number of losses of one cause that are listed individually. Older ones are added up.
	MaxEntries = 64
	// MaxWays is the number of listed publishers per minute. Others are added up.
	MaxWays = 8
	// MaxCauses is the maximum number of causes. Losses with further ones are not stored.
	MaxCauses = 40
	// together is the time from the first loss for which losses with the same circumstances are one entry.
	together = time.Minute
)

// Record is safe for concurrent use. New makes it.
type Record struct {
	mu      sync.Mutex
	since   time.Time                // time of the first sample
	causes  map[string]*ofCause      // under mu
	labels  []string                 // under mu: the keys of causes, in order of occurrence
	dropped uint64                   // under mu: losses of causes beyond MaxCauses
	minutes []Minute                 // under mu, oldest first
	before  []uint64                 // under mu: the previous sample
	ways    map[wayKey]stats.LossWay // under mu: of the previous sample
	at      time.Time                // under mu: time of the previous sample
}

// ofCause has the losses of one cause.
type ofCause struct {
	entries []stats.LossEntry // oldest first
	older   stats.OlderLosses
}

// New returns an empty record that starts at now.
func New(now time.Time) *Record {
	return &Record{since: now, at: now, causes: make(map[string]*ofCause), ways: make(map[wayKey]stats.LossWay)}
}

// Add records a loss at now; First, Last and Times of e are ignored. Unknown must be 1 if the amount is unknown.
func (r *Record) Add(now time.Time, e stats.LossEntry) {
	e.First, e.Last, e.Times = now, now, 1
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.causes[e.Cause]
	if x == nil {
		if len(r.causes) >= MaxCauses {
			r.dropped++
			return
		}
		x = new(ofCause)
		r.causes[e.Cause] = x
		r.labels = append(r.labels, e.Cause)
	}
	for i := len(x.entries) - 1; i >= 0; i-- {
		if old := &x.entries[i]; samePlace(old, &e) && now.Sub(old.First) < together {
			merge(old, &e)
			return
		}
	}
	x.forget(now.Add(-Kept))
	if len(x.entries) == MaxEntries {
		fold(&x.older, &x.entries[0])
		x.entries = slices.Delete(x.entries, 0, 1)
	}
	x.entries = append(x.entries, e)
}

// samePlace reports whether two losses have the same circumstances: if they follow each other within a minute they are
// one entry.
func samePlace(a, b *stats.LossEntry) bool {
	return a.Cause == b.Cause && a.Event == b.Event && a.Topic == b.Topic && a.Subscription == b.Subscription &&
		a.Group == b.Group && a.Leg == b.Leg && a.Publisher == b.Publisher && a.Epoch == b.Epoch &&
		a.Subscriber == b.Subscriber
}

// merge adds a later loss with the same circumstances to e.
func merge(e, later *stats.LossEntry) {
	e.Last = later.Last
	e.Times += later.Times
	e.Messages += later.Messages
	e.Unknown += later.Unknown
	e.For, e.Behind, e.Err = later.For, later.Behind, later.Err
	if later.Name != "" {
		e.Name = later.Name
	}
	if later.Address != "" {
		e.Address = later.Address
	}
}

// fold adds an entry that is no longer listed to o.
func fold(o *stats.OlderLosses, e *stats.LossEntry) {
	if o.Times == 0 {
		o.Cause, o.First = e.Cause, e.First
	}
	o.Last = e.Last
	o.Times += e.Times
	o.Messages += e.Messages
}

// forget removes entries that ended before since.
func (x *ofCause) forget(since time.Time) {
	x.entries = slices.DeleteFunc(x.entries, func(e stats.LossEntry) bool { return e.Last.Before(since) })
	if x.older.Last.Before(since) {
		x.older = stats.OlderLosses{}
	}
}

// Snapshot is the content of a record.
type Snapshot struct {
	// Since is the time from which the record is complete: an hour ago, or when the bus was opened.
	Since time.Time
	// Entries has the losses, oldest first.
	Entries []stats.LossEntry
	// Older has the sums of losses beyond MaxEntries of one cause. Their First may be before Since.
	Older []stats.OlderLosses
	// Dropped counts losses that were not stored, because there was no room for their cause.
	Dropped uint64
	// Minutes has the minutes with counts, oldest first.
	Minutes []Minute
}

// Snapshot returns the losses in the hour up to now.
func (r *Record) Snapshot(now time.Time) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Add(-Kept)
	s := Snapshot{Since: r.since, Dropped: r.dropped}
	if s.Since.Before(since) {
		s.Since = since
	}
	for _, label := range r.labels {
		x := r.causes[label]
		x.forget(since)
		s.Entries = append(s.Entries, x.entries...)
		if x.older.Times > 0 {
			s.Older = append(s.Older, x.older)
		}
	}
	slices.SortStableFunc(s.Entries, func(a, b stats.LossEntry) int { return a.First.Compare(b.First) })
	r.forgetMinutes(since)
	for _, m := range r.minutes {
		s.Minutes = append(s.Minutes, m.clone())
	}
	return s
}
