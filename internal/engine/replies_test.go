package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// unroutable is a transport that cannot reply while broken.
type unroutable struct {
	transport.Transport
	broken *atomic.Bool
}

func (u unroutable) Reply(p transport.Peer, packet []byte) error {
	if u.broken.Load() {
		return fmt.Errorf("udp: sendto: %w", syscall.ENETUNREACH)
	}
	return u.Transport.Reply(p, packet)
}

// A subscriber that cannot send statuses reports that with the publisher's address, the error and the remedy, and reports
// the end.
func TestCannotReply(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	var broken atomic.Bool
	broken.Store(true)
	var mu sync.Mutex
	var reported []events.Event
	cfg := Config{Events: func(e events.Event) {
		if e.Kind == events.CannotReply || e.Kind == events.RepliesAgain {
			mu.Lock()
			reported = append(reported, e)
			mu.Unlock()
		}
	}}
	tr, err := mem.Open(mem.Config{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	l := start(unroutable{tr, &broken}, cfg)
	t.Cleanup(func() { l.Close(context.Background()) })
	subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, nil)
	_, other := newLoop(t, Config{})
	p, _ := publication(t, other, "x")
	if err := p.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	await := func(n int) events.Event {
		t.Helper()
		for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			if len(reported) >= n {
				defer mu.Unlock()
				return reported[n-1]
			}
			mu.Unlock()
		}
		t.Fatalf("no report %d within a minute", n)
		panic("unreachable")
	}
	e := await(1)
	address := fmt.Sprintf("mem://%s#", t.Name())
	if e.Kind != events.CannotReply || !errors.Is(e.Err, syscall.ENETUNREACH) || !strings.HasPrefix(e.Address, address) || e.For < time.Second || e.Behind == 0 {
		t.Errorf("event %+v, want CannotReply to %s with %v, For and Behind", e, address, syscall.ENETUNREACH)
	}
	if !strings.Contains(e.String(), "add a route to "+address) {
		t.Errorf("event %v, want the remedy to add a route to %s", e, address)
	}
	if st, err := l.Stats(); err != nil || st.RepliesFailed == 0 || st.Transport.SendErrors != 0 {
		t.Errorf("%d failed replies and %d send errors (%v), want some and 0", st.RepliesFailed, st.Transport.SendErrors, err)
	}
	mu.Lock()
	n := len(reported)
	mu.Unlock()
	broken.Store(false)
	for e = await(n + 1); e.Kind == events.CannotReply; e = await(n + 1) {
		n++
	}
	if !strings.HasPrefix(e.Address, address) || e.For < time.Second || !strings.Contains(e.String(), "after ") {
		t.Errorf("event %+v, want RepliesAgain from %s after at least a second", e, address)
	}
}

// Failures to reply to a peer are reported after 1 s, 2 s, 4 s, … Shorter failures are not reported. At most maxUnreplied
// peers are kept.
func TestUnreplied(t *testing.T) {
	begin := reliable.Instant(time.Hour)
	at := func(ms int) reliable.Instant { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var x unreplied
	var reports []string
	for ms := 0; ms <= 9000; ms += 100 {
		for peer := range transport.Peer(2) {
			if p, report := x.refused(at(ms), peer); report {
				reports = append(reports, fmt.Sprintf("%d:%v/%d", peer, at(ms).Sub(p.since), p.failed))
			}
		}
	}
	if got := strings.Join(reports, " "); got != "0:1s/11 1:1s/11 0:2s/21 1:2s/21 0:4s/41 1:4s/41 0:8s/81 1:8s/81" {
		t.Errorf("reports %s, want one of each peer after 1, 2, 4 and 8 s", got)
	}
	if d, reported := x.sent(at(9100), 0); d != 9100*time.Millisecond || !reported {
		t.Errorf("failures ended after %v, reported %v, want 9.1s and true", d, reported)
	}
	if _, reported := x.sent(at(9200), 0); reported {
		t.Error("the end is reported twice, want once")
	}
	x.refused(at(9300), 0)
	if _, reported := x.sent(at(9900), 0); reported {
		t.Error("the end of an unreported failure is reported, want no report")
	}
	if _, report := x.refused(at(9000+121_000), 1); report {
		t.Error("two failures minutes apart are reported, want no report")
	}
	for peer := range transport.Peer(10 * maxUnreplied) {
		x.refused(at(200_000), peer)
	}
	if len(x.peers) > maxUnreplied {
		t.Errorf("%d peers are kept, want at most %d", len(x.peers), maxUnreplied)
	}
	if x.refused(at(400_000), 1<<20); len(x.peers) != 1 {
		t.Errorf("%d peers are kept after minutes, want 1", len(x.peers))
	}
}

// Time in which the process is stopped does not count as time of failed replies.
func TestUnrepliedAcrossAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		tr, err := mem.Open(mem.Config{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		var reported atomic.Int64
		l := start(unroutable{tr, &broken}, Config{Wait: WaitPark, Events: func(e events.Event) {
			if e.Kind == events.CannotReply {
				reported.Add(1)
			}
		}})
		defer l.Close(t.Context())
		for range 2 {
			if err := l.do(func() { l.replyTo(1, nil) }); err != nil {
				t.Fatal(err)
			}
			l.freeze(t, 2*time.Minute)
		}
		if err := l.do(func() { l.replyTo(1, nil) }); err != nil {
			t.Fatal(err)
		}
		if n := reported.Load(); n > 0 {
			t.Errorf("%d reports, want 0", n)
		}
	})
}

// The remedy names the host.
func TestReplyRemedy(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENETUNREACH: "add a route to 10.0.0.5 ", syscall.EHOSTUNREACH: "add a route to 10.0.0.5 ",
		syscall.EPERM: "let the firewall of this host pass UDP to 10.0.0.5", syscall.EMSGSIZE: "raise the MTU of the route to 10.0.0.5 ", syscall.EINVAL: "sending to 10.0.0.5",
	} {
		if got := replyRemedy(fmt.Errorf("udp: sendto: %w", errno), "10.0.0.5:4711"); !strings.Contains(got, want) {
			t.Errorf("%v: remedy %q, want it to contain %q", errno, got, want)
		}
	}
	for address, want := range map[string]string{"": "to that peer ", "[fe80::1%eth0]:5": "to fe80::1%eth0 ", "[fe80::1]:qp17": "to fe80::1 ", "[::ffff:10.0.0.5]:qp17": "to 10.0.0.5 ", "mem://x#1": "to mem://x#1 "} {
		if got := replyRemedy(syscall.ENETUNREACH, address); !strings.Contains(got, want) {
			t.Errorf("address %q: remedy %q, want it to contain %q", address, got, want)
		}
	}
}
