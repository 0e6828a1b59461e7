package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// ping measures round trips: it publishes messages on topic ping.NAME, and responders send them
// back on pong.NAME. A message begins with a header; the rest is padding:
//
//	sender (8 bytes, random)   sequence (8 bytes; 0: a probe)
//
// Responders send messages back unchanged. ping sends probes until one is answered: then both
// streams are established, and their first messages cannot be lost.
type ping struct {
	common
	listen   bool
	count    uint64
	interval time.Duration
	timeout  time.Duration
	size     int

	e     *env
	name  string
	bus   *pubsub.Bus
	out   *pubsub.Publisher
	in    *pubsub.Subscription
	lines *jsonLines

	id      uint64
	payload []byte
	sentAt  time.Time
	sum     pingSummary
	total   time.Duration
	hist    *hdrhistogram.Histogram // of nanoseconds
	seen    map[pubsub.PublisherID]bool
}

const (
	pingHeader  = 16
	pingName    = "default"
	pingSize    = 56
	knockEvery  = 100 * time.Millisecond
	pingTimeout = 5 * time.Second
	quietBelow  = 10 * time.Millisecond // below this interval replies are not printed one by one
)

func (p *ping) run(ctx context.Context, e *env) error {
	p.e = e
	from, to := "pong."+p.name, "ping."+p.name
	if p.listen {
		from, to = to, from
	}
	bus, log, closeBus, err := p.open(ctx, e, pubsub.Config{Linger: 100 * time.Millisecond, OnEvent: p.event})
	if err != nil {
		return err
	}
	defer closeBus()
	log.release(!p.quiet, p.quiet, mismatchWords)
	p.bus, p.lines = bus, newJSONLines(p.e.stdout)
	if p.in, err = bus.Subscribe(from); err != nil {
		return err
	}
	if p.out, err = bus.Publisher(to); err != nil {
		return err
	}
	defer p.watchInProcess(e)()
	if p.listen {
		return p.respond(ctx)
	}
	return p.measure(ctx)
}

// event is called by the bus. A mismatch ends ping unless another bus replies.
func (p *ping) event(e events.Event) {
	p.fabricEvent(p.e, e)
	if m := separating(e); m != nil && p.listen && !p.quiet {
		p.e.console.line("%v", m)
	}
}

func (p *ping) respond(ctx context.Context) error {
	if !p.quiet {
		p.e.console.line("answering pings to %s", p.name)
	}
	for {
		m, err := p.in.Next(ctx)
		switch {
		case errors.Is(err, pubsub.ErrGap), errors.Is(err, events.ErrPublisherRefused):
			continue // that ping stays unanswered
		case err == nil:
			err = p.out.Publish(ctx, m.Data)
		}
		if err != nil {
			return normalEnd(ctx, err)
		}
	}
}

// normalEnd drops the error of a signal, which is the normal end of a command without a limit.
func normalEnd(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

func (p *ping) measure(ctx context.Context) error {
	var id [8]byte
	rand.Read(id[:]) // never fails
	p.id = binary.LittleEndian.Uint64(id[:])
	p.payload = make([]byte, p.size)
	copy(p.payload, id[:])
	p.hist = hdrhistogram.New(1, int64(time.Hour), 3)
	p.seen = make(map[pubsub.PublisherID]bool)
	p.sum = pingSummary{Type: "summary", Bytes: p.size}
	if err := p.knock(ctx); err != nil {
		return err
	}
	err := p.pings(ctx)
	if p.count == 0 {
		err = normalEnd(ctx, err)
	}
	p.summarize()
	if p.json {
		err = cmp.Or(err, p.lines.write(&p.sum))
	} else {
		err = cmp.Or(err, p.print())
	}
	if err == nil && p.sum.Answered < p.sum.Sent {
		err = fmt.Errorf("%s unanswered", count(p.sum.Sent-p.sum.Answered, "ping"))
	}
	return err
}

func (p *ping) knock(ctx context.Context) error {
	for left := p.timeout; left > 0; left -= knockEvery {
		if err := p.send(ctx, 0); err != nil {
			return err
		}
		if answered, err := p.await(ctx, 0, knockEvery); answered || err != nil {
			return err
		}
		if m := p.apart.Load(); m != nil {
			return mismatchError(fmt.Errorf("no answer to pings to %s: %w", p.name, m))
		}
	}
	return fmt.Errorf("no answer to pings to %s within %v: run 'fanfare ping -listen' with the same -t and NAME on the other side", p.name, p.timeout)
}

func (p *ping) send(ctx context.Context, seq uint64) error {
	binary.LittleEndian.PutUint64(p.payload[8:], seq)
	p.sentAt = time.Now()
	return p.out.Publish(ctx, p.payload)
}

func (p *ping) pings(ctx context.Context) error {
	for seq := uint64(1); p.count == 0 || seq <= p.count; seq++ {
		if err := p.send(ctx, seq); err != nil {
			return err
		}
		p.sum.Sent++
		answered, err := p.await(ctx, seq, p.timeout)
		if answered {
			p.sum.Answered++
		}
		if err != nil {
			if !answered && ctx.Err() != nil {
				p.sum.Sent-- // the wait for its answer was interrupted
			}
			return err
		}
		if !answered && !p.quiet {
			p.e.console.line("no answer to ping %d within %v", seq, p.timeout)
		}
		if seq == p.count {
			break
		}
		// Replies of other responders may arrive until the next ping is due.
		if wait := p.interval - time.Since(p.sentAt); wait > 0 {
			if err := p.others(ctx, seq, wait); err != nil {
				return err
			}
		}
	}
	return nil
}

var errTimeout = errors.New("no answer in time")

func (p *ping) await(ctx context.Context, seq uint64, limit time.Duration) (bool, error) {
	for {
		var m pubsub.Message
		ran, err := whileRunning(ctx, limit, errTimeout, func(ctx context.Context) (err error) {
			m, err = p.in.Next(ctx)
			return err
		})
		limit -= ran
		switch {
		case errors.Is(err, errTimeout):
			return false, nil
		case errors.Is(err, pubsub.ErrGap), errors.Is(err, events.ErrPublisherRefused):
			continue
		case err != nil:
			return false, err
		}
		if p.mine(m.Data, seq) {
			return true, p.reply(&m, seq)
		}
	}
}

func (p *ping) others(ctx context.Context, seq uint64, wait time.Duration) error {
	end := time.Now().Add(wait)
	for {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if _, err := p.await(ctx, seq, left); err != nil {
			return err
		}
	}
}

func (p *ping) mine(data []byte, seq uint64) bool {
	return len(data) == p.size && binary.LittleEndian.Uint64(data) == p.id && binary.LittleEndian.Uint64(data[8:]) == seq
}

func (p *ping) reply(m *pubsub.Message, seq uint64) error {
	if seq == 0 {
		return nil
	}
	rtt := time.Since(p.sentAt)
	p.total += rtt
	p.sum.Replies++
	p.seen[m.Publisher()] = true
	p.hist.RecordValue(min(int64(rtt), int64(time.Hour)))
	switch {
	case p.quiet || p.interval < quietBelow:
		return nil
	case p.json:
		return p.lines.write(pingReply{"reply", seq, m.Publisher().String(), len(m.Data), micro(rtt)})
	}
	_, err := fmt.Fprintf(p.e.stdout, "%d bytes from %s: seq=%d time=%s\n", len(m.Data), m.Publisher(), seq, plural.Duration(rtt))
	return err
}

func (p *ping) summarize() {
	s := &p.sum
	s.Responders = len(p.seen)
	if s.Replies == 0 {
		return
	}
	at := func(q float64) float64 { return micro(time.Duration(p.hist.ValueAtQuantile(q))) }
	s.Min, s.Max = micro(time.Duration(p.hist.Min())), micro(time.Duration(p.hist.Max()))
	s.Avg = micro(p.total / time.Duration(s.Replies))
	s.P50, s.P90, s.P99, s.P999 = at(50), at(90), at(99), at(99.9)
}

func (p *ping) print() error {
	s := &p.sum
	_, err := fmt.Fprintf(p.e.stdout, "--- %s ping statistics ---\n%s of %d bytes sent, %d answered, %s from %s\n",
		p.name, count(s.Sent, "ping"), s.Bytes, s.Answered, count(s.Replies, "reply"), count(s.Responders, "responder"))
	if s.Replies == 0 || err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.e.stdout, "rtt min/avg/max = %.1f/%.1f/%.1f µs, p50/p90/p99/p99.9 = %.1f/%.1f/%.1f/%.1f µs\n",
		s.Min, s.Avg, s.Max, s.P50, s.P90, s.P99, s.P999)
	return err
}

func pingCommand() command {
	return command{
		name:    "ping",
		summary: "measure the round trip to other processes through the bus",
		usage: `fanfare ping -listen [flags] [NAME]    answer pings
fanfare ping [flags] [NAME]            send pings`,
		about: `Pings are published on topic ping.NAME, and replies on pong.NAME; the default NAME is
"default". Every listening process replies.`,
		examples: `fanfare ping -listen
fanfare ping -count 10
fanfare ping -count 100000 -interval 0 -size 1024`,
		exits:     []word{mismatchExit},
		exitNotes: `It is 0 when -listen, or ping without -count, is interrupted.`,
		flags:     flagsOf(func() *ping { return new(ping) }),
	}
}

func (p *ping) register(fs *flagSet) {
	p.registerURL(fs)
	boolVar(fs, &p.listen, "listen", "answer pings until interrupted")
	countVar(fs, &p.count, "count", 0, "send `N` pings; 0, the default: until interrupted")
	atLeast(durationVar(fs, &p.interval, "interval", time.Second, "time between pings; 0: send the next ping when the last is answered. "+
		"Below 10ms only the summary is printed"), 0)
	within(intVar(fs, &p.size, "size", pingSize, "message size in `BYTES`"), pingHeader, maxMessage)
	above(durationVar(fs, &p.timeout, "timeout", pingTimeout, "how long to wait for an answer"), 0)
	p.registerOther(fs)
}

func (p *ping) check(fs *flagSet, operands []string) error {
	p.name = pingName
	if len(operands) > 1 {
		return usagef("ping takes one name: %q is too many", operands[1])
	}
	if p.listen {
		for _, name := range []string{"count", "interval", "timeout", "size"} {
			if fs.isSet(name) {
				return usagef("-%s is for sending pings, and cannot be used with -listen", name)
			}
		}
	}
	if len(operands) == 1 {
		p.name = operands[0]
	}
	return cmp.Or(checkTopics([]string{"ping." + p.name}, pubsub.CheckTopic), p.common.check())
}
