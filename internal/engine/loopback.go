package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/reliable"
)

// echoWatch detects that a fabric does not return a bus's own packets although Loopback asks for them.
type echoWatch struct {
	since reliable.Instant // when the bus was first seen publishing and joined; 0: not yet
	done  bool             // its packets have come back, or the fault was reported
}

// echoSilence is how long a bus may miss its own heartbeats. It sends ten a second while no subscriber answers.
const echoSilence = 5 * time.Second

// missing reports, once, that a bus has published too long to a group that it has joined, without receiving itself.
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

// watchEcho logs that Loopback has no effect.
func (g *group) watchEcho(now reliable.Instant) {
	if !g.l.cfg.Receiver.Loopback || g.echo.done || !g.joined {
		return
	}
	publishing, heard := false, false
	for _, p := range g.l.publications() {
		publishing = publishing || p.group == g.index
	}
	for _, st := range g.r.Streams() {
		heard = heard || st.Instance == g.l.cfg.Instance
	}
	if g.echo.missing(g.l.ran(now), publishing, heard) {
		report.NoLoopback.Log(g.l.log, "group", g.address)
	}
}
