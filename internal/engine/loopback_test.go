package engine

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// oneWay is a fabric that does not return packets to their sender. It drops all packets.
type oneWay struct{ transport.Transport }

type discarding struct{ transport.Sender }

func (o oneWay) NewSender(group int) (transport.Sender, error) {
	s, err := o.Transport.NewSender(group)
	return discarding{s}, err
}

func (discarding) Send(t *transport.Outbound) (int, error) { return t.Count, nil }

// If the fabric does not return a bus's own packets, the log says that Loopback has no effect.
func TestLoopbackOfNoEffect(t *testing.T) {
	testenv.Slow(t)
	var all, with atomic.Int64
	log := slog.New(lineCounter{&all, &with, "does not return this bus's own packets"})
	cfg := Config{Logger: log, Receiver: reliable.ReceiverConfig{Loopback: true}}
	_, l := newLoopOver(t, cfg, func(tr transport.Transport) transport.Transport { return oneWay{tr} })
	subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, nil)
	publication(t, l, "x")
	for limit := time.Now().Add(time.Minute); with.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nothing was logged within a minute, want a line about Loopback")
		}
	}
}

func TestEchoWatch(t *testing.T) {
	const s = reliable.Instant(time.Second)
	type step struct {
		at                   reliable.Instant
		publishing, received bool
		want                 bool
	}
	for name, steps := range map[string][]step{
		"packets return":    {{1 * s, true, false, false}, {2 * s, true, true, false}, {60 * s, true, false, false}},
		"no packet returns": {{1 * s, true, false, false}, {6 * s, true, false, false}, {7 * s, true, false, true}, {8 * s, true, false, false}},
		"does not publish":  {{1 * s, false, false, false}, {60 * s, false, false, false}},
		"publishes later":   {{1 * s, false, false, false}, {60 * s, true, false, false}, {61 * s, true, false, false}, {66 * s, true, false, true}},
	} {
		var e echoWatch
		for i, l := range steps {
			if got := e.missing(l.at, l.publishing, l.received); got != l.want {
				t.Errorf("%s, step %d: missing returned %v, want %v", name, i, got, l.want)
			}
		}
	}
}
