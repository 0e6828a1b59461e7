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

// Survey finds out which topics are published in groups. It is no subscription: nothing is delivered, and publishers
// neither wait for it nor count it.
type Survey struct {
	l      *Loop
	groups map[int]*surveyGroup // by index; loop only, as all fields below
	began  reliable.Instant
	budget *topics.ListBudget
	err    error // why the first of the failed groups cannot be joined
	failed int   // number of groups that cannot be joined
	closed bool
}

// surveyGroup is one group of a survey.
type surveyGroup struct {
	address string
	lister  *topics.Lister
}

// Surveyed is what a survey has found.
type Surveyed struct {
	Streams []SurveyedStream
	For     time.Duration // duration of the survey
	Groups  int           // groups of the survey, in any state
	Joined  int           // groups that are joined
	Failed  int           // groups that cannot be joined
	Err     error         // why the first of these cannot
	Counts  topics.ListerStats
}

// SurveyedStream is what one publisher publishes in one group.
type SurveyedStream struct {
	reliable.Origin
	Group        int
	GroupAddress string
	For          time.Duration // since its first packet
	Complete     bool          // it has named all of its topics
	Topics       []topics.ListedTopic
	Unnamed      int // topics with an unknown name
}

// Survey starts a survey of groups.
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

// begin joins the groups. Loop only.
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
		s.groups[index] = &surveyGroup{address, topics.NewLister(c, l.cfg.Compression.Unpacker, peers{l.t}, s.budget)}
	}
	return nil
}

// fail records that a group cannot be joined.
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

// surveyPacket passes a packet of a train to surveys, and sends their requests.
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

// Ended returns a channel that is closed when the loop, and with it the survey, has ended.
func (s *Survey) Ended() <-chan struct{} { return s.l.shutdown.done }

// Heard returns what the survey has found so far on topics that match one of the patterns.
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

// heard is Heard on the loop.
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

// Close ends the survey. It leaves the groups that nothing else needs.
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
