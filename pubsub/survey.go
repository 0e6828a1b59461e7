package pubsub

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// TopicList lists the topics published on a fabric, as far as a Survey knows.
type TopicList struct {
	// Topics are those that were received, in the order of their names.
	Topics []TopicInfo
	// Publishers is the number of buses that publish anything in the groups. Incomplete is how many of
	// them have not sent all names of their topics yet, so that some may be missing here.
	Publishers, Incomplete int
	// Unnamed is how many topics had messages, but no valid name arrived.
	Unnamed int
	// Groups is the number of groups surveyed, Joined how many of them are joined, and Failed how many cannot be
	// joined. Err is the error of the first.
	Groups, Joined, Failed int
	Err                    error
	// Refused counts entries that were dropped for lack of room: topics beyond 131,072 and publishers beyond
	// Config.MaxPublishers in a group. If it is not zero, entries are missing here, or an attacker floods the fabric.
	Refused uint64
	// For is the duration of the survey.
	For time.Duration
}

// TopicInfo is one topic of a TopicList.
type TopicInfo struct {
	Name         string
	Group        int    // its index
	GroupAddress string // on the fabric
	// Publishers are those that have the topic, also if they do not publish on it just now.
	Publishers []TopicPublisher
}

// Rate is how many messages a second all publishers of the topic publish.
func (t TopicInfo) Rate() (perSecond float64) {
	for i := range t.Publishers {
		perSecond += t.Publishers[i].Rate
	}
	return perSecond
}

// TopicPublisher is one publisher of a topic.
type TopicPublisher struct {
	ID      PublisherID
	Name    string // its Config.Name; empty if it has none, or no heartbeat came yet
	Epoch   events.ID
	Address string // source of its packets, as the fabric writes it; may be empty
	// Messages is the number of messages it published on the topic, including those lost on the way, since it started or
	// forgot the topic (docs/protocol §10.9).
	Messages uint64
	// Rate is the average number of messages a second since its first packet arrived.
	Rate float64
}

// Survey listens to a fabric and records which topics are published. It is no subscription: nothing is delivered, and
// publishers neither count it nor wait for it. It is safe for concurrent use.
type Survey struct {
	s        *engine.Survey
	patterns []pattern.Pattern
	closed   atomic.Bool
}

// Survey begins to listen for topics that match one of the patterns (CheckPattern), or for
// all without one. It joins the groups in which such topics can be, and group 0, where buses
// report how they are configured (events.ConfigMismatch). It asks publishers for the names of their topics, so that the
// list includes topics without messages. An idle publisher sends once a second at least: survey for two seconds or
// more. Topics of the bus itself are included with Config.Loopback only. Close ends it.
func (b *Bus) Survey(patterns ...string) (*Survey, error) {
	if err := b.opened(); err != nil {
		return nil, failed("list topics", "", err)
	}
	if len(patterns) == 0 {
		patterns = []string{">"}
	}
	s := new(Survey)
	groups := []int{0} // where buses report how they are configured
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		s.patterns = append(s.patterns, p)
		groups = append(groups, b.groups.Groups(p)...)
	}
	slices.Sort(groups)
	var err error
	if s.s, err = b.loop.Survey(slices.Compact(groups)); err != nil {
		return nil, failed("list topics", "", err)
	}
	return s, nil
}

// Topics returns the list so far. The bus's goroutine makes it: with very many topics, frequent calls slow the bus
// down.
func (s *Survey) Topics() (*TopicList, error) {
	if s.s == nil {
		return nil, failed("list topics", "", errNotMade)
	}
	h, err := s.s.Heard(s.patterns)
	if err != nil {
		if s.closed.Load() && errors.Is(err, net.ErrClosed) {
			err = errSurveyClosed
		}
		return nil, failed("list topics", "", err)
	}
	return topicList(&h), nil
}

// Close ends the survey. It is idempotent.
func (s *Survey) Close() error {
	if s.s == nil {
		return failed("end a survey", "", errNotMade)
	}
	s.closed.Store(true)
	return failed("end a survey", "", s.s.Close())
}

// Topics listens until ctx ends and returns the topics found: a Survey in one call. The end of ctx is not an error.
// Give it two seconds or more:
//
//	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
//	defer cancel()
//	list, err := bus.Topics(ctx, "md.>")
func (b *Bus) Topics(ctx context.Context, patterns ...string) (*TopicList, error) {
	if ctx == nil {
		return nil, failed("list topics", "", engine.ErrNilContext)
	}
	s, err := b.Survey(patterns...)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	select {
	case <-ctx.Done():
	case <-s.s.Ended():
	}
	return s.Topics()
}

// topicList sorts the results of a survey by topic.
func topicList(h *engine.Surveyed) *TopicList {
	list := &TopicList{Groups: h.Groups, Joined: h.Joined, Failed: h.Failed, Err: publicError(h.Err),
		Refused: h.Counts.Topics + h.Counts.Streams, For: h.For}
	complete := make(map[events.Instance]bool)
	type place struct {
		topic string
		group int // a publisher with another configuration may use another group for the topic
	}
	index := make(map[place]int)
	for i := range h.Streams {
		x := &h.Streams[i]
		was, known := complete[x.Instance]
		complete[x.Instance] = x.Complete && (was || !known)
		list.Unnamed += x.Unnamed
		for j := range x.Topics {
			t := &x.Topics[j]
			here := place{t.Name, x.Group}
			at, ok := index[here]
			if !ok {
				at = len(list.Topics)
				index[here] = at
				list.Topics = append(list.Topics, TopicInfo{Name: t.Name, Group: x.Group, GroupAddress: x.GroupAddress})
			}
			p := TopicPublisher{ID: x.Publisher, Name: x.Name, Epoch: x.Epoch,
				Address: x.Address, Messages: t.Messages()}
			if x.For > 0 {
				p.Rate = float64(t.Next-t.First) / x.For.Seconds()
			}
			list.Topics[at].Publishers = append(list.Topics[at].Publishers, p)
		}
	}
	list.Publishers = len(complete)
	for _, all := range complete {
		if !all {
			list.Incomplete++
		}
	}
	slices.SortFunc(list.Topics,
		func(a, b TopicInfo) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group)) })
	for i := range list.Topics {
		slices.SortFunc(list.Topics[i].Publishers, func(a, b TopicPublisher) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
		})
	}
	return list
}
