package engine

import "time"

// SubscriptionStats is what is counted of one subscription.
type SubscriptionStats struct {
	Topics   int
	Messages uint64 // delivered
	Pending  int    // packets that were received in order and are not read yet
	Replaced uint64 // messages that were replaced by newer ones of their keys
	// Waiting is how many messages, gaps and events wait where only the newest are wanted;
	// WaitingBytes is the memory for them.
	Waiting, WaitingBytes int
	Lost                  []Losses
	// Publishers are those that are followed. A handler lags behind none.
	Publishers []SubscriptionPublisher
}

// SubscriptionPublisher is how far a subscription has read the stream of one publisher.
type SubscriptionPublisher struct {
	Publisher, Epoch uint64
	Name             string        // the publisher's
	Group            string        // address
	Lag              int           // packets that are received in order and not read yet
	Window           int           // packets that are kept for who reads
	Relevant         bool          // it has announced a topic that is subscribed here
	Blocking         bool          // it may hold the publisher up
	Unread           time.Duration // that it has held the stream up, and read nothing; 0: it does not
	LostFor          time.Duration // that the publisher is given up as lost; 0: it is not
}

// Stats takes a snapshot. When the loop has ended it holds what is left, and in a handler
// what needs no look at the streams.
func (s *Subscription) Stats() SubscriptionStats {
	st := SubscriptionStats{Messages: s.delivered(), Lost: s.losses.snapshot()}
	err := s.l.do(func() { s.look(&st) })
	if err != nil && s.handler != nil && s.l.Ended() {
		st.Messages = s.got
	}
	return st
}

// look adds what only the loop knows. Loop only.
func (s *Subscription) look(st *SubscriptionStats) {
	now := s.l.now()
	st.Topics = len(s.names())
	if s.handler != nil {
		st.Messages = s.got
		s.shown.Store(s.got)
		for g := range s.groups() {
			for _, x := range g.r.Streams() {
				if !x.Ended() {
					st.Publishers = append(st.Publishers, SubscriptionPublisher{
						Publisher: x.Publisher, Epoch: x.Epoch, Name: x.Origin().Name, Group: g.address, Relevant: x.Relevant(), Blocking: true, LostFor: x.LostFor(now),
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
		st.Publishers = append(st.Publishers, SubscriptionPublisher{
			Publisher: f.st.Publisher, Epoch: f.st.Epoch, Name: f.st.Origin().Name, Group: f.g.address,
			Lag: lag, Window: f.st.Span(), Relevant: f.st.Relevant(), Blocking: f.blocking, Unread: f.unread.lasts(f.g.l.ran(now)), LostFor: f.st.LostFor(now),
		})
		st.Pending += lag
	}
}

// delivered is how many messages were read: all of them if nobody is reading just now,
// otherwise those of the packets before.
func (s *Subscription) delivered() uint64 {
	if s.handler != nil || !s.readers.borrow() {
		return s.shown.Load()
	}
	defer s.readers.giveBack()
	return s.got
}
