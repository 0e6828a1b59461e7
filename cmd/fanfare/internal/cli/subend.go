package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// finish leaves the publishers and returns the error of sub. err ended receiving, if s.finished is not set.
func (s *sub) finish(ctx context.Context, err error) error {
	s.tally.mark()
	sum := s.summary()
	var sig *signalError
	var m *events.ConfigMismatchError
	sum.Evicted = evicted(err)
	switch {
	case sum.Evicted != nil:
		sum.End, err = endEvicted, evictedText(sum.Evicted)
	case errors.As(err, &sig):
		sum.End = endSignal
	case errors.As(err, &m):
		sum.End = endMismatch
	case err != nil:
		sum.End = endError
	}
	if err == nil {
		err = s.verdict(&sum)
	}
	sum.Complete, sum.Error = err == nil, plain(err)
	if !s.quiet {
		if err == nil && s.finished == endUntil && s.from != fromLive && s.tally.total() == 0 {
			s.e.console.line("-until has passed and no message was received: the data that -from %s requests may take longer", s.from)
		}
		s.e.console.line("%s", s.line(&sum))
		s.topicLines(&sum)
		s.reportLegs(s.e, sum.Legs)
	}
	if s.json {
		err = cmp.Or(err, s.writeStalls(), s.events.write(&sum), s.sink.flush())
	}
	s.leave(ctx, &sum)
	return cmp.Or(err, s.bus.Close())
}

func (s *sub) topicLines(sum *subSummary) {
	for i, t := range sum.Topics {
		if i == maxTopicsShown {
			s.e.console.line("  and %s more", count(len(s.tally.topics.counts)-i, "topic"))
			return
		}
		s.e.console.line("  %s: %s", t.Topic, count(t.Messages, "message"))
	}
}

// leave stays for a short time after the end of a publisher if the network loses packets: our last
// status may be lost, and the publisher repeats its question until it knows that we have everything.
func (s *sub) leave(ctx context.Context, sum *subSummary) {
	if s.finished != endPublisher || sum.Missing == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveMax)
	defer cancel()
	ticker := time.NewTicker(leaveQuiet / 10)
	defer ticker.Stop()
	asked, since := s.heartbeats(), time.Now()
	for time.Since(since) < leaveQuiet {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if now := s.heartbeats(); now != asked {
			asked, since = now, time.Now()
		}
	}
}

const (
	// leaveQuiet is three times the slowest heartbeat interval of a waiting publisher: two heartbeats may be lost.
	leaveQuiet = 300 * time.Millisecond
	leaveMax   = 2 * time.Second
)

func (s *sub) heartbeats() (n uint64) {
	for _, g := range s.bus.Stats().Groups {
		n += g.Heartbeats
	}
	return n
}

func (s *sub) verdict(sum *subSummary) error {
	t := &s.tally
	switch n := t.total(); {
	case t.incomplete() && s.unreadable.first.Load() != nil:
		return s.unreadable.onlyUnreadable("not all packets could be read")
	case t.GapCount > 0 || len(t.stateless) > 0 || t.Collisions > 0 || t.Refused > 0 || t.broken() > 0 || t.incomplete():
		return errReported
	case sum.Untrusted > 0: // these refusals may not have been reported yet
		return fmt.Errorf("%s refused: their publishers are not trusted for these topics", count(sum.Untrusted, "message"))
	case n == 0 && s.unreadable.first.Load() != nil:
		return s.unreadable.onlyUnreadable("no message")
	case s.finished == endIdle && s.undetected != nil && n == 0:
		return mismatchError(fmt.Errorf("no message for %v: %w", s.idle, s.undetected))
	case s.finished == endUntil && s.undetected != nil && n == 0:
		return mismatchError(fmt.Errorf("no message received in %v: %w", s.until, s.undetected))
	case s.finished == endUntil && s.stoodStill():
		return fmt.Errorf("this process did not run until just now (was it stopped?), and -until has passed: messages after the first %s may be missing", count(n, "message"))
	case s.finished == endUntil && s.max > 0:
		return fmt.Errorf("-until %v has passed: %d of %s received", s.until, n, count(s.max, "message"))
	case s.finished == endIdle && s.max > 0:
		return fmt.Errorf("no message for %v: %d of %s received", s.idle, n, count(s.max, "message"))
	case s.finished == endIdle && n == 0:
		return fmt.Errorf("no message for %v", s.idle)
	}
	return nil
}

// stoodStill reports whether the process did not run just before -until passed: its losses are not known yet.
func (s *sub) stoodStill() bool {
	stood := s.stood.Load()
	return time.Since(s.ends) > stoodStillFor || stood != nil && time.Since(*stood) < stoodStillFor
}

const stoodStillFor = 3 * time.Second // longer than a publisher may be silent until it counts as lost

func (s *sub) summary() subSummary {
	t := &s.tally
	st := s.bus.Stats()
	sum := subSummary{
		Type: "summary", jsonTraffic: trafficIn(t.last.Sub(t.first), t.messages, t.bytes), End: s.finished,
		jsonFaults: t.jsonFaults,
		Publishers: t.list(), Records: t.records,
		Topics: t.topics.list(), Replaced: s.replaced(),
		jsonReceived: received(&st), Legs: legsOf(&st),
	}
	sum.NoState, sum.Untrusted, sum.Faults = len(t.stateless), st.RefusedMessages, t.broken()
	return sum
}

func received(st *stats.Bus) jsonReceived {
	r := jsonReceived{Overflow: st.Transport.ReceiveOverflow, Damaged: st.Transport.Damaged,
		RepairP50: micro(st.Repair.P50), RepairP99: micro(st.Repair.P99)}
	for _, g := range st.Groups {
		r.Packets += g.Packets
		r.Missing += g.Missing
		r.Repaired += g.Repaired
		r.Late += g.Late
		r.PacketsLost += g.Lost
		r.Duplicates += g.Duplicates
		r.NAKs += g.NAKs
		r.Damaged += g.Damaged
	}
	return r
}

func (s *sub) line(sum *subSummary) string {
	return list(
		summary(count(sum.Messages, "message"), s.tally.last.Sub(s.tally.first), sum.Messages, sum.Bytes),
		someThat(sum.Records, "record", "of state"),
		someThat(sum.Replaced, "message", "replaced by newer ones"),
		someThat(sum.Repaired, "packet", fmt.Sprintf("repaired (p50 %s, p99 %s)", duration(sum.RepairP50), duration(sum.RepairP99))),
		some(sum.Duplicates, "duplicate"),
		someThat(sum.Overflow, "datagram", s.dropper()),
		some(sum.Damaged, "damaged packet"),
		count(sum.GapCount, "gap"),
		someThat(sum.Lost, "message", "lost"),
		someThat(uint64(sum.NoState), "topic", "without state"),
		someThat(sum.Untrusted, "message", "refused (publisher not trusted for the topic)"))
}

// dropper describes which side dropped packets because a receive queue was full, and which queue.
func (s *sub) dropper() string {
	shared := 0
	for _, url := range s.urls {
		if strings.HasPrefix(url, "shm:") {
			shared++
		}
	}
	switch shared {
	case 0:
		return "dropped by this host: its receive queue was full"
	case len(s.urls):
		return "dropped by publishers, because their queue to this process was full (queue= in the URL)"
	}
	return "dropped, because the receive queue was full"
}

func duration(micros float64) string { return plural.Duration(time.Duration(micros * 1e3)) }

func (s *sub) status() func(time.Duration) string {
	var msgs, bytes flow
	return func(elapsed time.Duration) string {
		n, b := s.tally.shown.messages.Load(), s.tally.shown.bytes.Load()
		st := s.bus.Stats()
		return list(count(n, "message"), rates(msgs.rate(n, elapsed), bytes.rate(b, elapsed)),
			count(received(&st).Repaired, "repair"), count(s.tally.shown.gapCount.Load(), "gap"))
	}
}

// othersPublish reports whether a publisher has named one of our topics but has sent nothing on it so far. Publishers
// that have named none get some time: their index round may still come.
func (s *sub) othersPublish() bool {
	for end := time.Now().Add(namesWithin); ; time.Sleep(namesWithin / 50) {
		unknown := false
		for _, p := range s.s.Stats().Publishers {
			x := s.tally.publisher(p.Publisher)
			switch {
			case !x.up[stream{p.Group, p.Epoch}]:
			case p.Relevant:
				x.ours = true
				return true
			default:
				unknown = true
			}
		}
		if !unknown || time.Now().After(end) {
			return false
		}
	}
}

// namesWithin is longer than an idle publisher takes to name its topics.
const namesWithin = 500 * time.Millisecond
