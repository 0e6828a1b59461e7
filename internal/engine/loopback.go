package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/reliable"
)

// echoWatch finds out that a fabric does not return a bus's own packets to it, where the bus is to hear itself.
type echoWatch struct {
	since reliable.Instant // when the bus was first seen to publish and be joined; 0: not yet
	done  bool             // it has heard itself, or was reported
}

// echoSilence is how long a bus may not hear its own heartbeats, which it sends ten times a
// second while no subscriber answers.
const echoSilence = 5 * time.Second

// missing reports, once, that a bus which publishes to a group that it has joined has not heard itself for too long.
func (e *echoWatch) missing(now reliable.Instant, publishing, heard bool) bool {
	switch {
	case e.done || !publishing:
		return false
	case heard:
		e.done = true
		return false
	case e.since == 0:
		e.since = now
		return false
	}
	e.done = now.Sub(e.since) > echoSilence
	return e.done
}

// watchEcho warns where Loopback has no effect.
func (g *group) watchEcho(now reliable.Instant) {
	if !g.l.cfg.Receiver.Loopback || g.echo.done || !g.joined {
		return
	}
	publishing, heard := false, false
	for _, p := range g.l.publications() {
		publishing = publishing || p.group == g.index
	}
	for _, st := range g.r.Streams() {
		heard = heard || st.Publisher == g.l.cfg.Publisher && st.Epoch == g.l.cfg.Epoch
	}
	if g.echo.missing(g.l.ran(now), publishing, heard) {
		report.NoLoopback.Log(g.l.log, "group", g.address)
	}
}
