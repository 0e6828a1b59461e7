package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscribers to patterns. The checker finds independently which topics match, and from which
// packet on; the core has to learn the names in time.

// Pattern is a pattern that a subscriber subscribes to in each of its stays.
type Pattern struct {
	At   time.Duration // after the beginning of the stay
	Text string
}

// patternTexts are the patterns to draw from.
var patternTexts = []string{">", "sim.>", "sim.even.>", "sim.odd.*.*", "*.*.*.3", "sim.*.*.12", "sim.none.>"}

// beginPatterns subscribes to the patterns of the stay.
func (s *subscriber) beginPatterns() {
	s.beginWants()
	stay := s.stay
	for _, p := range s.o.Patterns {
		parsed, err := pattern.Parse(p.Text)
		if err != nil {
			s.sim.fail("subscriber %d: %v", s.number, err)
			return
		}
		if p.At == 0 {
			s.subscribe(parsed)
			s.first = len(s.patterns)
			continue
		}
		s.sim.at(p.At, func() { s.join(parsed, stay) })
	}
}

// join subscribes to a pattern later in the stay, as soon as the process runs.
func (s *subscriber) join(p pattern.Pattern, stay int) {
	switch {
	case !s.present() || s.stay != stay:
	case s.paused || s.waitsForNames():
		s.sim.at(time.Millisecond, func() { s.join(p, stay) })
	default:
		s.sim.trace("subscriber %d subscribes to %v", s.number, p)
		s.subscribe(p)
		s.pump()
	}
}

// waitsForNames reports whether the first pattern must wait until the names of existing topics are
// known: the streams are already read.
func (s *subscriber) waitsForNames() bool {
	up := func(st *reliable.Stream) bool { return !st.Ended() && !st.Down() && st.Next() > 0 }
	if s.o.FromWindow || s.o.FromState || len(s.patterns) > 0 || !slices.ContainsFunc(s.r.Streams(), up) {
		return false
	}
	if s.namesBy == 0 {
		s.namesBy = s.now().Add(cmp.Or(s.o.Deadline, defaultDeadline))
		s.sim.report.Ahead++
		s.learnNames()
		s.pump()
	}
	return !s.r.NamesLearned() && s.now() < s.namesBy
}

// subscribe adds a pattern, from the next packet of each stream on.
func (s *subscriber) subscribe(p pattern.Pattern) {
	s.patterns = append(s.patterns, p)
	s.learnNames()
	for _, f := range s.feeds {
		f.since = f.st.Next()
		f.expect()
	}
	for _, id := range s.r.NamesMatching(p) {
		name, _ := s.r.Name(id)
		s.extend(id, name, false, func(*feed) bool { return false })
	}
	s.r.TopicsChanged(s.now())
}

// expect records the topics that the feed must deliver from here on.
func (f *feed) expect() {
	for i := range topicNames {
		if i < len(f.topics) && !f.topics[i].wanted && f.sub.topic(i) {
			f.topics[i] = topicFeed{wanted: true, from: max(f.st.Start(), f.st.Next())}
		}
	}
}

// extend adds a topic to the feeds of all streams; named: its name has just been learned.
func (s *subscriber) extend(id uint64, name string, named bool, whole func(*feed) bool) {
	for _, st := range s.r.Streams() {
		for _, f := range outputOf(st).feeds {
			if !f.wants(id) {
				f.later = append(f.later, later{st.Next(), id, name, named, whole(f)})
			}
		}
	}
}

// patternState is the state of a feed for its subscriber's patterns.
type patternState struct {
	since uint64  // all patterns include the stream from this packet on
	later []later // topics that begin later
}

// later is a topic that a feed wants from a packet on.
type later struct {
	seq   uint64
	id    uint64
	name  string
	named bool // its name was just learned
	whole bool
}

// begin makes the reader deliver the topics that begin at sequence seq or before.
func (f *feed) begin(seq uint64) {
	f.later = slices.DeleteFunc(f.later, func(x later) bool {
		if x.seq > seq {
			return false
		}
		if x.seq > 0 {
			f.r.Begun()
		}
		f.r.Want(x.id, x.name, slices.Index(topicNames, x.name))
		if x.whole {
			f.r.Whole(x.id)
		}
		if x.named {
			f.beginFrom(x.id)
		}
		return true
	})
}

// wants reports whether the feed wants a topic, now or later.
func (f *feed) wants(id uint64) bool {
	return f.r.Wants(id) || slices.ContainsFunc(f.later, func(x later) bool { return x.id == id })
}

// The subscriber is informed of the names that its receiver learns.

func (s *subscriber) Named(st *reliable.Stream, id uint64, name string, since uint64, whole bool) {
	s.sim.trace("subscriber %d: topic %#x is %s", s.number, id, name)
	s.sim.report.Named++
	if t := s.sim.o.Trust; t != nil && !t.May(st.Publisher, name) {
		s.sim.fail("subscriber %d: learned topic %s from publisher %v, which may not publish it", s.number, name, st.Publisher)
	}
	if s.matches(name) {
		s.checkNamed(st, id, since, whole)
		for _, x := range s.r.Streams() {
			if x != st {
				outputOf(x).beginTopic(slices.Index(topicNames, name))
			}
		}
		s.extend(id, name, true, func(f *feed) bool { return whole && f.st == st && f.since <= since })
	}
}

func (s *subscriber) Forgotten(_ *reliable.Stream, id uint64) {
	if slices.Contains(s.sim.topicIDs[:s.o.Topics], id) {
		return
	}
	for _, st := range s.r.Streams() {
		for _, f := range outputOf(st).feeds {
			f.r.Drop(id)
			f.later = slices.DeleteFunc(f.later, func(x later) bool { return x.id == id })
		}
	}
}

func (s *subscriber) Wants(id uint64) bool {
	name, ok := s.r.Name(id)
	return ok && s.matches(name)
}

// learnNames makes the receiver learn names.
func (s *subscriber) learnNames() {
	for _, st := range s.r.Streams() {
		if o := outputOf(st); o.namesFrom < st.Next() && !s.learns {
			o.namesFrom = st.Next()
		}
	}
	s.learns = true
	s.r.LearnNames(s.now(), s)
}

// checkNamed checks that a name comes in time. If the stream had the topic before it was followed, the name comes in
// the first round of all topics. Otherwise the topic is wanted from its first message on.
func (s *subscriber) checkNamed(st *reliable.Stream, id, since uint64, whole bool) {
	o := outputOf(st)
	if o.t == nil {
		return
	}
	i := o.t.topic(id)
	if i < 0 {
		return
	}
	first, at := o.t.firstPacketOf(i), st.Next()
	if whole {
		if first < since {
			s.sim.fail("subscriber %d: topic %d begins with packet %d, not %d or later", s.number, i, first, since)
		}
		if named := o.t.topics[i].namedIn; named < at && o.lostIn(named, named+1) {
			for _, f := range o.feeds {
				if i < len(f.topics) {
					f.topics[i].named = at
				}
			}
		}
		return
	}
	o.beginTopic(i)
	if r := o.listed(at); r != nil && !s.o.FromWindow && !s.o.FromState {
		s.sim.fail("subscriber %d: the name of topic %d comes with packet %d, and was in the round of packets %d to %d",
			s.number, i, at, r.begin, r.end)
	}
}

// listed returns a round of all topics that arrived below packet at, since names are learned.
func (o *output) listed(at uint64) *round {
	for i := range o.t.rounds {
		if r := &o.t.rounds[i]; r.all && r.since == 0 && r.begin >= max(o.namesFrom, o.st.Start()) && r.end > 0 && r.end < at &&
			!o.lostIn(r.begin, r.end+1) {
			return r
		}
	}
	return nil
}

// beginTopic records that a pattern's topic is wanted from the next packet on.
func (o *output) beginTopic(i int) {
	for _, f := range o.feeds {
		if i < len(f.topics) && f.topics[i].wanted && !f.r.Wants(o.s.sim.topicIDs[i]) {
			f.topics[i].from = max(f.topics[i].from, o.st.Next())
		}
	}
}

// lostIn reports whether a packet of a range never arrived.
func (o *output) lostIn(first, end uint64) bool {
	return slices.ContainsFunc(o.lost, func(h hole) bool { return h.first < end && first < h.end })
}
