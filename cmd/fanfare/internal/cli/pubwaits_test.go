package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// stubborn is a transport whose bus modifies the statuses that it sends to publishers.
type stubborn struct {
	transport.Transport
	change func(status []byte)
}

func (s stubborn) Reply(p transport.Peer, packet []byte) error {
	if h, err := wire.ParseHeader(packet); err == nil && h.Type == wire.TypeStatus {
		packet = bytes.Clone(packet)
		s.change(packet)
	}
	return s.Transport.Reply(p, packet)
}

// upNamed reports whether the log has an event "subscriber up" with that name.
func upNamed(log, name string) bool {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "subscriber up") && strings.Contains(line, name) {
			return true
		}
	}
	return false
}

// pub does not wait forever or silently for a subscriber that answers without progress or repeats
// its questions, and reports missing packets only if there are some.
func TestPubWaitIsBounded(t *testing.T) {
	stuck := func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 0) } // it stays at the first packet
	wantsTopics := func(b []byte) { b[4] |= byte(wire.FlagWantTopics) }  // the end of the stream does not wait for that
	const misses, gaveUp, linger = ": odd at mem://", "gave up waiting, because no subscriber made progress for 500ms (-stall-limit)", "gave up waiting after 300ms (-linger)"
	for _, c := range []struct {
		name     string
		topic    string // of odd
		change   func([]byte)
		flags    []string
		code     int
		wantText string
	}{
		{"stays, -wait", "md.x", stuck, []string{"-wait", "1", "-stall-limit", "500ms"}, exitIncomplete, gaveUp + misses},
		{"stays, -linger", "md.x", stuck, []string{"-wait", "1", "-linger", "300ms"}, exitIncomplete, linger + misses},
		{"asks, -wait", "md.x", wantsTopics, []string{"-wait", "1", "-stall-limit", "500ms"}, exitOK, "1 message, 1 subscriber,"},
		{"stays on another topic", "md.y", stuck, []string{"-wait", "1", "-stall-limit", "500ms"}, exitOK, "packets behind, not known to subscribe to md.x"},
		{"stays on another topic, -linger", "md.y", stuck, []string{"-wait", "1", "-linger", "300ms"}, exitOK, "packets behind, not known to subscribe to md.x"},
		{"asks on another topic", "md.y", wantsTopics, []string{"-wait", "1", "-stall-limit", "500ms"}, exitOK, "1 message, 1 subscriber,"},
		{"asks, -linger", "md.x", wantsTopics, []string{"-wait", "1", "-linger", "300ms"}, exitOK, "1 message, 1 subscriber,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			name := strings.NewReplacer("/", "-", ",", "").Replace(t.Name())
			m, err := mem.Open(mem.Config{Name: name, Groups: 1})
			if err != nil {
				t.Fatal(err)
			}
			bus, err := pubsub.Config{Name: "odd"}.OpenTransport(stubborn{m, c.change})
			if err != nil {
				t.Fatal(err)
			}
			defer bus.Close()
			if _, err := bus.Handle(c.topic, func(pubsub.Message, error) {}); err != nil {
				t.Fatal(err)
			}
			if c.topic != "md.x" {
				good, err := pubsub.Config{Name: "good"}.Open(testContext(t), "mem://"+name+"?groups=1")
				if err != nil {
					t.Fatal(err)
				}
				defer good.Close()
				if _, err := good.Handle("md.x", func(pubsub.Message, error) {}); err != nil {
					t.Fatal(err)
				}
			}
			stdin, typed := io.Pipe()
			defer typed.Close()
			p := start(t, stdin, append(append([]string{"pub", "-v", "-t", "mem://" + name + "?groups=1"}, c.flags...), "md.x")...)
			await(t, "odd", func() bool { return upNamed(p.stderr.String(), "odd") })
			_, _ = io.WriteString(typed, "one\n")
			typed.Close()
			p.end(t, c.code)
			stderr := p.stderr.String()
			if !strings.Contains(stderr, c.wantText) {
				t.Errorf("no %q in:\n%s", c.wantText, stderr)
			}
			if c.code == exitOK && strings.Contains(stderr, "have received everything: ") {
				t.Errorf("reported missing packets:\n%s", stderr)
			}
		})
	}
}

// Time in which the process does not run does not count for the stall limit.
func TestStandstillIsNotPartOfStallLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, pause = 5 * time.Second, 7 * time.Second
		begun, calls := time.Now(), 0
		ctx, stop := (&pub{stall: limit}).whileProgress(t.Context(), func() int {
			if calls++; calls == 3 {
				time.Sleep(pause)
			}
			return 1
		}, func() error { return errLinger })
		defer stop()
		<-ctx.Done()
		if elapsed := time.Since(begun); elapsed < limit+pause-time.Second || elapsed > limit+pause+time.Second || context.Cause(ctx) != errLinger {
			t.Errorf("%v after %v, of which it paused for %v; the limit is %v", context.Cause(ctx), elapsed, pause, limit)
		}
	})
}

// A stop of the process does not count for a wait, even if the limit has passed: what was sent meanwhile is read.
func TestWaitsWhileRunning(t *testing.T) {
	const limit, pause = 2 * time.Second, 7 * time.Second
	for stopped := range int(limit / meterEvery) {
		synctest.Test(t, func(t *testing.T) {
			begun, calls := time.Now(), 0
			ran, err := whileRunning(t.Context(), limit, errIdle, func(ctx context.Context) error {
				<-ctx.Done()
				if calls++; calls == stopped+1 {
					time.Sleep(pause)
				}
				return context.Cause(ctx)
			})
			if elapsed := time.Since(begun); ran < limit || elapsed < limit+pause || elapsed > limit+pause+meterEvery || err != errIdle {
				t.Errorf("stopped in step %d: %v after %v, of which it ran for %v", stopped, err, elapsed, ran)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ran, err := whileRunning(t.Context(), limit, errIdle, func(ctx context.Context) error {
			if time.Since(begun) < time.Second {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		if ran != time.Second || err != nil {
			t.Errorf("the wait ended with %v after %v, want no error after %v", err, ran, time.Second)
		}
	})
}

// The wait for the first subscribers has a limit, too, and its error names those that have come.
func TestPubWaitForFirstIsBounded(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := memURL(t)
	bus, err := pubsub.Config{Name: "early"}.Open(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Handle("md.x", func(pubsub.Message, error) {}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ topic, wantText string }{
		{"md.x", "no further subscriber came for 2s (-stall-limit); present: early at mem://"},
		{"md.y", "no further subscriber came for 2s (-stall-limit); present: none: 0 of 2 are present"},
	} {
		r := runWith(testContext(t), "one\n", "pub", "-t", url, "-wait", "2", "-stall-limit", "2s", c.topic)
		if r.code != exitIncomplete || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("exit %d, want %d, and no %q in:\n%s", r.code, exitIncomplete, c.wantText, r.stderr)
		}
	}
}

// A subscriber that comes and goes repeatedly does not keep pub waiting.
func TestComingAndGoingIsNoProgress(t *testing.T) {
	stuck := stats.Subscriber{ID: 1, Behind: 5}
	var e endProgress
	steps := e.of([]stats.Subscriber{stuck})
	for id := range uint64(20) {
		for _, all := range [][]stats.Subscriber{{stuck, {ID: events.ID(2 + id), Behind: 9}}, {stuck}, {stuck, {ID: 2, Behind: 9}}} {
			if n := e.of(all); n != steps {
				t.Fatalf("%d steps, want %d: %+v", n, steps, all)
			}
		}
	}
	stuck.Behind--
	if n := e.of([]stats.Subscriber{stuck}); n != steps+1 {
		t.Errorf("%d steps when one has received more, want %d", n, steps+1)
	}
	stuck.Released = true
	if n := e.of([]stats.Subscriber{stuck}); n != steps+2 {
		t.Errorf("%d steps when one is released, want %d", n, steps+2)
	}

	// Before the first message: once a second another subscriber comes and goes.
	url := memURL(t)
	p := start(t, strings.NewReader("one\n"), "pub", "-t", url, "-wait", "2", "-stall-limit", "1s", "md.x")
	for again := true; again; {
		select {
		case <-p.done:
			again = false
			continue
		default:
		}
		bus, err := pubsub.Open(testContext(t), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bus.Handle("md.x", func(pubsub.Message, error) {}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		bus.Close()
		time.Sleep(100 * time.Millisecond)
	}
	p.end(t, exitIncomplete)
}
