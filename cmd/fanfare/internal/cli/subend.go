package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// finish takes leave of the publishers and returns what sub returns. err is why receiving ended, if not s.finished.
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
		if err == nil && s.finished == endUntil && s.from != fromLive && s.tally.came() == 0 {
			s.e.console.line("-until is over, and no message came: what -from %s asks for may take longer to come", s.from)
		}
		s.e.console.line("%s", s.line(&sum))
		s.topicLines(&sum)
		s.sayLegs(s.e, sum.Legs)
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

// leave stays a little after the end of a publisher, on a network that loses packets: our last status may be among
// them, and the publisher asks again until it knows that we have everything.
func (s *sub) leave(ctx context.Context, sum *subSummary) {
	if s.finished != endPublisher || sum.Missing == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveLongest)
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
	// leaveQuiet is three times the slowest heartbeat of a publisher that waits, of which two may be lost.
	leaveQuiet   = 300 * time.Millisecond
	leaveLongest = 2 * time.Second
)

func (s *sub) heartbeats() (n uint64) {
	for _, g := range s.bus.Stats().Groups {
		n += g.Heartbeats
	}
	return n
}

func (s *sub) verdict(sum *subSummary) error {
	t := &s.tally
	switch n := t.came(); {
	case t.incomplete() && s.unreadable.first.Load() != nil:
		return s.unreadable.instead("not all was read")
	case t.GapCount > 0 || len(t.stateless) > 0 || t.Collisions > 0 || t.Refused > 0 || t.broken() > 0 || t.incomplete():
		return errReported
	case sum.Untrusted > 0: // which may not have been reported before the end
		return fmt.Errorf("%s refused: their publishers are not trusted with them", count(sum.Untrusted, "message"))
	case n == 0 && s.unreadable.first.Load() != nil:
		return s.unreadable.instead("no message")
	case s.finished == endIdle && s.undetected != nil && n == 0:
		return cannotCome(fmt.Errorf("no message for %v: %w", s.idle, s.undetected))
	case s.finished == endUntil && s.undetected != nil && n == 0:
		return cannotCome(fmt.Errorf("%v are over, and no message came: %w", s.until, s.undetected))
	case s.finished == endUntil && s.stoodStill():
		return fmt.Errorf("this process stood still until just now (was it stopped?), and -until is over: later messages may be missing behind the %s that came", count(n, "message"))
	case s.finished == endUntil && s.most > 0:
		return fmt.Errorf("%v are over: %d of %s came", s.until, n, count(s.most, "message"))
	case s.finished == endIdle && s.most > 0:
		return fmt.Errorf("no message for %v: %d of %s came", s.idle, n, count(s.most, "message"))
	case s.finished == endIdle && n == 0:
		return fmt.Errorf("no message for %v", s.idle)
	}
	return nil
}

// stoodStill reports whether the process did not run just before -until was over: what it missed is not known yet.
func (s *sub) stoodStill() bool {
	stood := s.stood.Load()
	return time.Since(s.ends) > stoodStillFor || stood != nil && time.Since(*stood) < stoodStillFor
}

const stoodStillFor = 3 * time.Second // longer than a publisher may be silent before it is lost

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
		took(count(sum.Messages, "message"), s.tally.last.Sub(s.tally.first), sum.Messages, sum.Bytes),
		someThat(sum.Records, "record", "of state"),
		someThat(sum.Replaced, "message", "replaced by newer ones"),
		someThat(sum.Repaired, "packet", fmt.Sprintf("repaired (p50 %s, p99 %s)", duration(sum.RepairP50), duration(sum.RepairP99))),
		some(sum.Duplicates, "duplicate"),
		someThat(sum.Overflow, "datagram", s.dropper()),
		some(sum.Damaged, "damaged packet"),
		count(sum.GapCount, "gap"),
		someThat(sum.Lost, "message", "lost"),
		someThat(uint64(sum.NoState), "topic", "without state"),
		someThat(sum.Untrusted, "message", "refused (publishers that are not trusted with them)"))
}

// dropper says which side has dropped packets for which a receive queue had no room, and which queue that is.
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
		return "dropped by publishers, since their queue to this process was full (queue= in the URL)"
	}
	return "dropped, since the receive queue was full"
}

func duration(micros float64) string { return short(time.Duration(micros * 1e3)) }

func (s *sub) status() func(time.Duration) string {
	var msgs, bytes flow
	return func(elapsed time.Duration) string {
		n, b := s.tally.shown.messages.Load(), s.tally.shown.bytes.Load()
		st := s.bus.Stats()
		return list(count(n, "message"), rates(msgs.rate(n, elapsed), bytes.rate(b, elapsed)),
			count(received(&st).Repaired, "repair"), count(s.tally.shown.gapCount.Load(), "gap"))
	}
}

// othersPublish reports whether a publisher is up that has announced one of our topics, and from which nothing came
// so far. One that has not announced any is given some time, in which each announces its topics.
func (s *sub) othersPublish() bool {
	for end := time.Now().Add(announcesWithin); ; time.Sleep(announcesWithin / 50) {
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

// announcesWithin is longer than a publisher takes to announce its topics when it has nothing to publish.
const announcesWithin = 500 * time.Millisecond
