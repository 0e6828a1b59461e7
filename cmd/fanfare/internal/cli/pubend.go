package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var errLinger = errors.New("not all subscribers have received everything")

// finish ends the stream in order, and returns the error of pub. err is the error that ended publishing.
func (p *pub) finish(ctx context.Context, err error) error {
	p.audience.end()
	end := p.end(ctx, err)
	var unsent *events.UnsentError
	errors.As(end, &unsent)
	if p.linger == 0 && errors.Is(end, errLinger) && unsent == nil {
		end = nil // -linger 0: the user does not want to wait
	}
	silent := p.audience.vanished()
	cut := err != nil && errors.Is(end, errLinger)
	switch {
	case err != nil:
	case end != nil:
		err = end
	case p.wait > 0 && silent > 0:
		err = fmt.Errorf("%s stopped answering before having received everything", count(silent, "subscriber"))
	}
	sum := p.summary()
	sum.Unfinished = cut
	if unsent != nil {
		sum.Unsent = unsent.Messages
	}
	if err == nil && p.wait > 0 && sum.Released > 0 {
		err = fmt.Errorf("%s released (-stall-limit, -slow-behind) before having received everything", count(sum.Released, "subscriber"))
	}
	if err == nil && p.wait > 0 && sum.GivenUp > 0 {
		err = fmt.Errorf("subscribers reported %s as permanently lost", count(sum.GivenUp, "packet"))
	}
	sum.Delivered = end == nil && p.apart.Load() == nil && silent == 0 && sum.Released == 0 && sum.GivenUp == 0 &&
		sum.LeftBehind == 0 && sum.Subscribers >= max(p.wait, 1) && p.linger != 0
	sum.Error = plain(err)
	var m *events.ConfigMismatchError
	if errors.As(err, &m) {
		sum.Mismatch = mismatchAsJSON(m, true)
	}
	if !p.quiet {
		p.e.console.line("%s", p.line(&sum))
		p.reportLegs(p.e, sum.Legs)
	}
	return cmp.Or(err, p.emit(&sum))
}

// end closes the bus after giving subscribers time to receive what they lack.
func (p *pub) end(ctx context.Context, err error) error {
	linger := p.linger
	if err != nil && context.Cause(ctx) != nil {
		ctx = context.WithoutCancel(ctx)
		if linger < 0 || linger > lingerStopped {
			linger = lingerStopped
		}
	}
	ctx, stop := p.bounded(ctx, linger)
	defer stop()
	notice := time.AfterFunc(waitNotice, func() {
		if text, _ := p.waitedFor(); !p.quiet && !p.e.console.tty && text != "" {
			p.e.console.line("waiting until all subscribers have received everything: %s", text)
		}
	})
	defer notice.Stop()
	stopMeter := startMeter(p.e.console, !p.quiet, func(time.Duration) string {
		p.present.count()
		waited, _ := p.waitedFor()
		return list(fmt.Sprintf("%s published, waiting until all of %s have received everything",
			count(p.messages.Load(), "message"), count(len(p.sender().Subscribers), "subscriber")), waited)
	})
	defer stopMeter()
	err = p.bus.Shutdown(ctx)
	p.present.count() // the same statuses report what subscribers want and what they have
	return p.late(err, context.Cause(ctx))
}

func (p *pub) status() func(time.Duration) string {
	var msgs, bytes flow
	return func(elapsed time.Duration) string {
		n, b := p.messages.Load(), p.bytes.Load()
		if n == 0 && p.wait > 0 {
			return fmt.Sprintf("waiting for %s, %d present", count(p.wait, "subscriber"), p.p.Subscribers())
		}
		text := count(n, "message")
		if p.src.total > 0 {
			text = fmt.Sprintf("%d of %s", n, count(p.src.total, "message"))
		}
		s := p.sender()
		return list(text, rates(msgs.rate(n, elapsed), bytes.rate(b, elapsed)),
			count(p.p.Subscribers(), "subscriber"), some(s.NAKs, "NAK"), some(s.RepairsSent, "repair"))
	}
}

func (p *pub) sender() (s stats.Publication) {
	for _, x := range p.bus.Stats().Publications {
		s = x
	}
	return s
}

func (p *pub) summary() pubSummary {
	s, st := p.sender(), p.bus.Stats()
	released := 0
	if p.p != nil {
		for _, r := range p.p.Receivers() {
			if r.Released {
				released++
			}
		}
	}
	return pubSummary{
		Type: "summary", Topic: p.topic, Publisher: p.bus.ID().String(),
		jsonTraffic: trafficIn(p.elapsed, p.messages.Load(), p.bytes.Load()),
		Subscribers: int(p.present.max.Load()), Silent: p.audience.vanished(),
		Released: released, GivenUp: s.ReceiversLost, LeftBehind: s.ReceiversBehind,
		Packets: s.PacketsSent, WireBytes: s.BytesSent, Uncompressed: s.BytesUnpacked,
		NAKs: s.NAKs, NAKPackets: s.NAKPackets, Repairs: s.RepairsSent,
		Legs:        legsOf(&st),
		FlowBlocked: s.FlowBlocked, RTTMicroseconds: micro(s.RTT), NoMemory: st.Transport.SendNoMemory,
	}
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// audienceText describes the number of subscribers. One that subscribed while messages did not wait
// for it may not have been detected before the end.
func (p *pub) audienceText(subscribers int) string {
	switch {
	case subscribers > 0:
		return count(subscribers, "subscriber")
	case p.wait > 0:
		return "no subscriber"
	}
	return "no subscriber detected before the end (-wait 1 waits for one)"
}

func someThat(n uint64, noun, words string) string {
	if n == 0 {
		return ""
	}
	return count(n, noun) + " " + words
}

var stoppedEarly = map[bool]string{true: "interrupted before all subscribers had received everything"}

func (p *pub) line(s *pubSummary) string {
	return list(
		summary(count(s.Messages, "message"), p.elapsed, s.Messages, s.Bytes),
		p.audienceText(s.Subscribers),
		some(s.Silent, "silent subscriber"),
		some(uint64(s.Released), "released subscriber"),
		someThat(s.LeftBehind, "subscriber", "left early"),
		someThat(s.Unsent, "message", "never sent"), stoppedEarly[s.Unfinished],
		compressedTo(s.WireBytes, s.Uncompressed), count(s.NAKs, "NAK"), count(s.Repairs, "repair"),
		someThat(s.NoMemory, "packet", "lost because shared memory was full (see fanfare doctor)"))
}
