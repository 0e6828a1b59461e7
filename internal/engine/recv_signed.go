package engine

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Packets and replies that must prove their sender (package transport/signed).

// proofs decides which packets of publishers a bus accepts. Loop only, except counters.
type proofs struct {
	v       *signed.Verifier      // nil: all are accepted
	seals   transport.Prover      // nil: packets are not sealed
	replies *signed.ReplyVerifier // for any goroutine; nil: all are accepted
	reports refusedReports
	refused [signed.NumVerdicts]atomic.Uint64
	streams atomic.Uint64
}

func (x *proofs) init(trust signed.Provider, t transport.Transport) {
	if trust != nil {
		x.v, x.replies = signed.NewVerifier(trust), signed.NewReplyVerifier(trust, nil)
		x.seals, _ = t.(transport.Prover)
	}
}

// wanted reports whether publishers must prove their identity.
func (x *proofs) wanted() bool { return x.v != nil }

// begin is called before a batch that may have waited unread for that long.
func (x *proofs) begin(c *clock, unread time.Duration) {
	if x.v == nil {
		return
	}
	if x.v.Begin(c.wall(), unread) {
		x.reports.forget()
	}
	x.streams.Store(uint64(x.v.Streams()))
}

// stats returns the counts of refused packets. Any goroutine may call it.
func (x *proofs) stats() stats.Sign {
	s := stats.Sign{Streams: x.streams.Load()}
	for v := range x.refused {
		signed.Verdict(v).Count(&s, x.refused[v].Load())
	}
	return s
}

// proven reports whether packet i of a train, which is p, is accepted.
func (l *Loop) proven(tr *transport.Train, i int, p []byte) bool {
	x := &l.inbox.proofs
	if !x.wanted() || !l.cfg.Receiver.Loopback && l.own(p) || l.elsewhere(tr.Group, p) || wire.IsSealed(p) {
		return true // receivers drop these, and report sealed ones
	}
	key, v := x.v.Check(tr.Packet(i), tr.Leg)
	if v == signed.Accepted {
		if x.seals != nil {
			x.seals.Proven(tr, i, uint32(key))
		}
		return true
	}
	x.refused[v].Add(1)
	if reason := x.reports.due(refusedKey{v, key}); reason != 0 {
		l.reportRefused(reason, key, tr.From)
	}
	return false
}

// Accept implements topics.SenderSink. Under the lock of a publication.
func (s *senderSink) Accept(x *topics.CompleteReply) bool {
	l := s.l
	p := &l.inbox.proofs
	if p.replies == nil {
		return true
	}
	to := signed.ReplyTo{Instance: l.cfg.Instance, Topic: x.Topic.ID,
		Number: x.Number, Receiver: x.Receiver}
	key, v := p.replies.Check(x.Topic.Name, &to, x.Data, x.Proof, x.First)
	if v == signed.Accepted {
		return true
	}
	p.refused[v].Add(1)
	if reason := p.reports.due(refusedKey{v, key}); reason != 0 {
		err := &transport.UnreadableError{Reason: reason, Key: uint32(key)}
		if reason == transport.UnreadableManyUntrusted {
			err.Key = 0
		}
		_ = l.post(func() { l.unreadable(err) }) // fails only if the loop has ended
	}
	return false
}

// elsewhere reports whether a packet's tag is that of another group. It may be genuine, and replayed here would cost a
// verification.
func (l *Loop) elsewhere(group int, p []byte) bool {
	g := l.groups[group]
	if g == nil || len(l.surveys) > 0 {
		return false
	}
	for ; g != nil; g = g.next {
		if g.r.Addressed(p) {
			return false
		}
	}
	return true
}

// own reports whether a packet names this bus as its sender.
func (l *Loop) own(p []byte) bool {
	h, err := wire.ParseHeader(p)
	return err == nil && h.Instance() == l.cfg.Instance
}

// reportRefused reports why packets are refused.
func (l *Loop) reportRefused(reason transport.UnreadableReason, key signed.KeyID, from transport.Source) {
	err := &transport.UnreadableError{Reason: reason, Key: uint32(key), From: l.t.SourceAddress(from)}
	if reason == transport.UnreadableManyUntrusted {
		err.Key = 0
	}
	l.unreadable(err)
}

// trust makes a reader deliver only topics that the publisher is trusted with.
func (l *Loop) trust(publisher events.ID, rd *topics.Reader) {
	if now := l.cfg.TopicTrust; now != nil {
		rd.Trust(publisher, now)
	}
}

// Untrusted implements topics.Names. It reports to subscriptions with a pattern that matches the topic. The readers
// of other subscriptions, which name the topic or have it because of another publisher, report it themselves.
func (g *group) Untrusted(st *reliable.Stream, id uint64, topic string, messages int, first bool) {
	var by ring.Set[*Subscription]
	t := g.topics[id]
	for _, s := range g.patterns.matching(topic) {
		if t == nil || !t.users.Has(s) {
			by.Add(s)
		}
	}
	if by.Len() == 0 {
		return
	}
	g.l.counters.refused.Add(uint64(messages * by.Len()))
	if !first {
		return
	}
	e := g.faulted(st, &events.FaultError{Publisher: st.Publisher, Epoch: st.Epoch,
		Topic: topic, Fault: events.FaultTopic, Count: 1})
	for _, s := range by.List() {
		if s.handler == nil {
			s.notify(e)
		} else if s.events {
			s.other(&Delivery{Event: &e})
		}
	}
}

// Refused implements topics.Tally.
func (p *inPlace) Refused(messages int) { p.g.l.counters.refused.Add(uint64(messages)) }

// Refused implements topics.Tally.
func (f *feed) Refused(messages int) { f.g.l.counters.refused.Add(uint64(messages)) }
