package driver

import (
	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/transport"
)

// unreadable passes on why packets that come cannot be opened. Each reason comes once.
func (l *Loop) unreadable(err error) {
	logline.PacketsUnreadable.Log(l.log, "err", err)
	l.event(Event{Kind: PacketsUnreadable, Err: err})
}

// watchSealed tells once that sealed packets come, where this bus has no keys.
func (g *group) watchSealed() {
	key, address, some := g.r.TakeSealed()
	if some && !g.l.sealedTold {
		g.l.sealedTold = true
		g.l.unreadable(&transport.UnreadableError{Reason: transport.UnreadableSealed, Key: key, From: address})
	}
}

// sealStats are those of a transport that seals.
func (l *Loop) sealStats() (s transport.SealStats) {
	if t, ok := l.t.(transport.Sealer); ok {
		s = t.SealStats()
	}
	return s
}
