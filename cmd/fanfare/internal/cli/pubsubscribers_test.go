package cli

import (
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// A publisher that ended before it detected a subscriber says only that.
func TestPubWithoutSubscribers(t *testing.T) {
	r := runWith(t.Context(), "one\n", "pub", "-t", "mem://"+t.Name(), "md.x")
	if want := "no subscriber detected before the end (-wait 1 waits for one)"; r.code != exitOK || !strings.Contains(r.stderr, want) {
		t.Errorf("%d, no %q in %s", r.code, want, r.stderr)
	}
}

// An interrupted pub without -wait reports how many subscribers there were.
func TestPubCountsSubscribers(t *testing.T) {
	url := memURL(t)
	stdin, typed := io.Pipe() // nothing is typed: how much is read until the interrupt is undefined
	defer typed.Close()
	start(t, nil, "sub", "-t", url, "-q", "md.x")
	p := start(t, stdin, "pub", "-t", url, "-v", "md.x")
	await(t, "the subscriber", func() bool { return strings.Contains(p.stderr.String(), "subscriber up") })
	p.cancel(&signalError{syscall.SIGINT})
	p.end(t, 130)
	if s := p.stderr.String(); !strings.Contains(s, "fanfare pub: 0 messages") || !strings.Contains(s, ", 1 subscriber,") {
		t.Errorf("standard error, want 0 messages and 1 subscriber:\n%s", s)
	}
}

// A pub that is interrupted while a subscriber does not read reports that it did not wait for it.
func TestPubInterruptedWhileBlocked(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := memURL(t)
	bus, err := pubsub.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Subscribe("md.x"); err != nil { // and never read
		t.Fatal(err)
	}
	stdin, typed := io.Pipe()
	go func() {
		line := []byte(strings.Repeat("x", 1000) + "\n")
		for {
			if _, err := typed.Write(line); err != nil {
				return
			}
		}
	}()
	defer stdin.Close()
	p := start(t, stdin, "pub", "-t", url, "-wait", "1", "md.x")
	await(t, "the report of the blocking subscriber", func() bool { return strings.Contains(p.stderr.String(), "blocked for") })
	p.cancel(&signalError{syscall.SIGTERM})
	p.end(t, 143)
	if s := p.stderr.String(); !strings.Contains(s, ", interrupted before all subscribers had received everything,") || !strings.Contains(s, " never sent,") {
		t.Errorf("standard error, want an interruption and messages never sent:\n%s", s)
	}
}

// A subscriber that was present only between two checks is counted.
func TestPubCountsShortVisits(t *testing.T) {
	url := memURL(t)
	stdin, typed := io.Pipe()
	p := start(t, stdin, "pub", "-t", url, "-v", "md.x")
	if _, err := typed.Write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	bus, err := pubsub.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Subscribe("md.x"); err != nil {
		t.Fatal(err)
	}
	await(t, "the subscriber", func() bool { return strings.Contains(p.stderr.String(), "subscriber up") })
	bus.Close()
	await(t, "the report that it left", func() bool { return strings.Contains(p.stderr.String(), "no subscriber is left") })
	typed.Close()
	p.end(t, exitOK)
	if s := p.stderr.String(); !strings.Contains(s, ", 1 subscriber,") {
		t.Errorf("standard error, want 1 subscriber:\n%s", s)
	}
}

// A pattern subscriber is counted even by a pub with a single message that does not wait, unless
// pub ends before the subscriber runs.
func TestPubCountsPatterns(t *testing.T) {
	url := memURL(t)
	start(t, nil, "sub", "-t", url, "-q", "md.>")
	start(t, strings.NewReader(""), "pub", "-t", url, "-wait", "1", "-q", "md.first").end(t, exitOK) // the subscriber is present
	var sum pubSummary
	for range 20 {
		p := start(t, strings.NewReader("1\n"), "pub", "-t", url, "-json", "md.x")
		p.end(t, exitOK)
		if err := json.Unmarshal([]byte(p.stdout.String()), &sum); err != nil {
			t.Fatal(err)
		}
		if sum.Subscribers == 1 && sum.Delivered {
			return
		}
	}
	t.Errorf("no run reported 1 subscriber and all delivered, the last one: %+v", sum)
}

func TestPubCountsInItsLine(t *testing.T) {
	line := (&pub{}).line(&pubSummary{Released: 2, LeftBehind: 78, Unsent: 1})
	if want := ", 2 released subscribers, 78 subscribers left early, 1 message never sent, "; !strings.Contains(line, want) {
		t.Errorf("no %q in %s", want, line)
	}
}
