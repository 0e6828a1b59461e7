package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// unreadable reports why packets cannot be opened. The transport limits how often each reason comes.
func (l *Loop) unreadable(err error) {
	l.emit(&report.PacketsUnreadable, events.Event{Kind: events.PacketsUnreadable, Err: err})
}

// noticeSealed reports once that sealed packets arrive in a group that only a survey receives, on a bus without keys.
func (l *Loop) noticeSealed(from transport.Source, p []byte) {
	if !l.sealedReported && wire.IsSealed(p) {
		l.sealedReported = true
		l.unreadable(&transport.UnreadableError{Reason: transport.UnreadableSealed, Key: wire.ParseSealed(p).Key,
			From: peers{l.t}.Address(uint64(from))})
	}
}

// watchSealed does the same for groups with subscriptions.
func (g *group) watchSealed() {
	key, address, some := g.r.TakeSealed()
	if some && !g.l.sealedReported {
		g.l.sealedReported = true
		g.l.unreadable(&transport.UnreadableError{Reason: transport.UnreadableSealed, Key: key, From: address})
	}
}
