package engine

import (
	"errors"
	"net"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Survey listens to groups and notes which topics are published there. It subscribes to
// nothing: nothing is delivered, and publishers neither wait for it nor count it.
type Survey struct {
	l      *Loop
	groups map[int]*surveyGroup // by index; loop only, as all that follows
	began  reliable.Instant
	budget *topics.ListBudget
	err    error // why a group is not listened to: the first
	failed int   // how many are not
	closed bool
}

// surveyGroup is one group that a survey listens to.
type surveyGroup struct {
	address string
	lister  *topics.Lister
}

// Surveyed is what a survey has heard.
type Surveyed struct {
	Streams []SurveyedStream
	For     time.Duration // that it has listened
	Groups  int           // that it listens to, joined or not yet
	Joined  int           // that the fabric delivers
	Failed  int           // that cannot be joined
	Err     error         // why: the first
	Counts  topics.ListerStats
}

// SurveyedStream is what one publisher publishes in one group.
type SurveyedStream struct {
	reliable.Origin
	Group        int
	GroupAddress string
	For          time.Duration // since its first packet
	Complete     bool          // it has announced all of its topics
	Topics       []topics.ListedTopic
	Unnamed      int // topics of which the name is not known
}

// Survey begins to listen to groups.
func (l *Loop) Survey(groups []int) (*Survey, error) {
	s := &Survey{l: l, groups: make(map[int]*surveyGroup), budget: topics.NewListBudget()}
	var err error
	if doErr := l.do(func() { err = s.begin(groups) }); doErr != nil {
		return nil, doErr
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// begin runs on the loop.
func (s *Survey) begin(groups []int) error {
	l := s.l
	if l.isClosing() {
		return net.ErrClosed
	}
	s.began = l.now()
	l.surveys = append(l.surveys, s)
	for _, index := range groups {
		if err := l.join(index); err != nil {
			s.fail(index, err)
			continue
		}
		c := l.cfg.Receiver
		address := l.t.GroupAddress(index)
		c.ID, c.GroupTag, c.LegTags = c.Rand.Uint64()|1, wire.GroupTag(address), l.inbox.legs.tags(index)
		s.groups[index] = &surveyGroup{address, topics.NewLister(c, peers{l.t}, s.budget)}
	}
	return nil
}

// fail notes that a group cannot be joined.
func (s *Survey) fail(index int, err error) {
	s.failed++
	if s.err == nil {
		s.err = err
	}
	if g := s.groups[index]; g != nil {
		g.lister.Close()
		delete(s.groups, index)
	}
}

// surveyPacket has surveys hear a packet of a train, and sends what they ask.
func (l *Loop) surveyPacket(now reliable.Instant, tr *transport.Train, p []byte) {
	for _, s := range l.surveys {
		g := s.groups[tr.Group]
		if g == nil {
			continue
		}
		g.lister.Handle(now, uint64(tr.From), p)
		l.noticeSealed(tr.From, p)
		for {
			peer, p, ok := g.lister.Next(l.ctl[:0])
			if !ok {
				break
			}
			l.replyTo(peer, p)
		}
	}
}

// surveyMembership reports to surveys that a group cannot be joined.
func (l *Loop) surveyMembership(e *transport.Event) {
	if e.Role != transport.RoleReceiver || e.State != transport.Failed {
		return
	}
	for _, s := range l.surveys {
		if s.groups[e.Group] != nil {
			s.fail(e.Group, e.Err)
		}
	}
}

// Ended is closed when the loop has ended, and the survey with it.
func (s *Survey) Ended() <-chan struct{} { return s.l.shutdown.done }

// Heard is what the survey has heard so far of the topics that one of the patterns matches.
func (s *Survey) Heard(patterns []pattern.Pattern) (h Surveyed, err error) {
	doErr := s.l.do(func() {
		if s.closed {
			err = net.ErrClosed
			return
		}
		h = s.heard(patterns)
	})
	if doErr != nil {
		err = doErr
	}
	return h, err
}

// heard runs on the loop.
func (s *Survey) heard(patterns []pattern.Pattern) Surveyed {
	now := s.l.now()
	h := Surveyed{For: now.Sub(s.began), Groups: len(s.groups) + s.failed, Failed: s.failed, Err: s.err}
	for index, g := range s.groups {
		if s.l.joins.up(index) {
			h.Joined++
		}
		h.Counts.Add(g.lister.Stats())
		for _, x := range g.lister.Streams() {
			v := SurveyedStream{Origin: x.Origin, Group: index, GroupAddress: g.address, For: now.Sub(x.Since),
				Complete: x.Complete()}
			x.Topics(func(t *topics.ListedTopic) {
				switch {
				case t.Name == "":
					v.Unnamed++
				case slices.ContainsFunc(patterns, func(p pattern.Pattern) bool { return p.Match(t.Name) }):
					v.Topics = append(v.Topics, *t)
				}
			})
			h.Streams = append(h.Streams, v)
		}
	}
	return h
}

// Close ends the survey. It leaves the groups that are not needed otherwise.
func (s *Survey) Close() error {
	err := s.l.do(func() {
		if s.closed {
			return
		}
		s.closed = true
		s.l.surveys = dropped(s.l.surveys, s)
		for index, g := range s.groups {
			g.lister.Close()
			if _, err := s.l.leave(index); err != nil {
				report.LeaveFailed.Log(s.l.log, "group", g.address, "err", err)
			}
		}
	})
	if errors.Is(err, net.ErrClosed) {
		return nil // it ended with the loop
	}
	return err
}
