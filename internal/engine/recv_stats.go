package engine

import (
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Stats returns a snapshot. After the loop has ended, and in a handler, it lacks what only the loop knows.
func (s *Subscription) Stats() stats.Subscription {
	st := stats.Subscription{Messages: s.delivered(), Lost: s.losses.snapshot()}
	err := s.l.do(func() { s.look(&st) })
	if err != nil && s.handler != nil && s.l.Ended() {
		st.Messages = s.got
	}
	return st
}

// look adds what only the loop knows. Loop only.
func (s *Subscription) look(st *stats.Subscription) {
	now := s.l.now()
	st.Topics = len(s.names())
	if s.handler != nil {
		st.Messages = s.got
		s.shown.Store(s.got)
		for g := range s.groups() {
			for _, x := range g.r.Streams() {
				if !x.Ended() {
					st.Publishers = append(st.Publishers, stats.SubscriptionPublisher{
						Publisher: x.Publisher, Epoch: x.Epoch, Name: x.Origin().Name,
						Group: g.address, Relevant: outputOf(x).in.Relevant(), Blocking: true, LostFor: x.LostFor(now),
					})
				}
			}
		}
	}
	for _, f := range *s.feeds.Load() {
		if f.left || f.done.Load() {
			continue
		}
		lag := f.c.Lag()
		st.Publishers = append(st.Publishers, stats.SubscriptionPublisher{
			Publisher: f.st.Publisher, Epoch: f.st.Epoch, Name: f.st.Origin().Name, Group: f.g.address,
			Lag: lag, Window: f.st.Span(), Relevant: f.o.in.Relevant(), Blocking: f.blocking,
			Unread: f.unread.lasts(f.g.l.ran(now)), LostFor: f.st.LostFor(now),
		})
		st.Pending += lag
	}
}

// delivered returns how many messages were read. While a reader is active that excludes those of the current packet.
func (s *Subscription) delivered() uint64 {
	if s.handler != nil || !s.readers.borrow() {
		return s.shown.Load()
	}
	defer s.readers.giveBack()
	return s.got
}
