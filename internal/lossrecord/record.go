// Package lossrecord keeps what a bus has lost in the last hour: each loss with its place,
// and the sums of every minute. It has no clock: each call says what time it is.
package lossrecord

import (
	"slices"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The bounds of a Record. Within them it takes some 300 bytes a loss, and no more than
// 750 KiB where all causes there are have happened 64 times.
const (
	// Kept is how long losses are remembered.
	Kept = time.Hour
	// MaxEntries is how many losses of one cause are listed one by one. Older ones are counted together.
	MaxEntries = 64
	// MaxWays is how many publishers are listed a minute. Others are counted together.
	MaxWays = 8
	// MaxCauses bounds how many causes there may be. Losses of further ones are not kept.
	MaxCauses = 40
	// together is how long losses of the same place are one entry, from the first on.
	together = time.Minute
)

// Record is safe for concurrent use. The zero value is not ready: call New.
type Record struct {
	mu      sync.Mutex
	since   time.Time                // of the first sample
	causes  map[string]*ofCause      // under mu
	labels  []string                 // under mu: the keys of causes, as they came
	dropped uint64                   // under mu: losses of causes beyond MaxCauses
	minutes []Minute                 // under mu, oldest first
	before  []uint64                 // under mu: the sample before
	ways    map[wayKey]stats.LossWay // under mu: of the sample before
	at      time.Time                // under mu: of it
}

// ofCause are the losses of one cause.
type ofCause struct {
	entries []stats.LossEntry // oldest first
	older   stats.OlderLosses
}

// New returns an empty record that begins at now.
func New(now time.Time) *Record {
	return &Record{since: now, at: now, causes: make(map[string]*ofCause), ways: make(map[wayKey]stats.LossWay)}
}

// Add takes in a loss that happens at now, without First, Last and Times. Unknown is 1 if it is not known how much was
// lost.
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

// samePlace reports whether two losses are of one place: those that follow each other within a minute are one entry.
func samePlace(a, b *stats.LossEntry) bool {
	return a.Cause == b.Cause && a.Event == b.Event && a.Topic == b.Topic && a.Subscription == b.Subscription &&
		a.Group == b.Group && a.Leg == b.Leg && a.Publisher == b.Publisher && a.Epoch == b.Epoch &&
		a.Subscriber == b.Subscriber
}

// merge adds to e a later loss of the same place.
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

// fold adds to o an entry that is not listed any more.
func fold(o *stats.OlderLosses, e *stats.LossEntry) {
	if o.Times == 0 {
		o.Cause, o.First = e.Cause, e.First
	}
	o.Last = e.Last
	o.Times += e.Times
	o.Messages += e.Messages
}

// forget drops what ended before since.
func (x *ofCause) forget(since time.Time) {
	x.entries = slices.DeleteFunc(x.entries, func(e stats.LossEntry) bool { return e.Last.Before(since) })
	if x.older.Last.Before(since) {
		x.older = stats.OlderLosses{}
	}
}

// Snapshot is what a record holds.
type Snapshot struct {
	// Since is from when on nothing is missing: an hour ago, or when the bus was opened.
	Since time.Time
	// Entries are losses, oldest first.
	Entries []stats.LossEntry
	// Older are those beyond MaxEntries of one cause. Their First may be before Since.
	Older []stats.OlderLosses
	// Dropped counts losses that were not kept, for lack of room for their cause.
	Dropped uint64
	// Minutes are those in which something was counted, oldest first.
	Minutes []Minute
}

// Snapshot returns what was lost in the hour up to now.
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
