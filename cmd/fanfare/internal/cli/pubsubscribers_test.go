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

// A publisher that ended before it heard of a subscriber says no more than that.
func TestPubWithoutSubscribers(t *testing.T) {
	r := runWith(t.Context(), "one\n", "pub", "-t", "mem://"+t.Name(), "md.x")
	if want := "no subscriber heard of before the end (-wait 1 waits for one)"; r.code != exitOK || !strings.Contains(r.stderr, want) {
		t.Errorf("%d, no %q in %s", r.code, want, r.stderr)
	}
}

// Who is interrupted, and was not told to wait for subscribers, says how many there were all the same.
func TestPubCountsSubscribers(t *testing.T) {
	url := memURL(t)
	stdin, typed := io.Pipe() // nothing is typed: what is read of it until the interrupt is a matter of chance
	defer typed.Close()
	start(t, nil, "sub", "-t", url, "-q", "md.x")
	p := start(t, stdin, "pub", "-t", url, "-v", "md.x")
	await(t, "the subscriber", func() bool { return strings.Contains(p.stderr.String(), "subscriber up") })
	p.cancel(&signalError{syscall.SIGINT})
	p.end(t, 130)
	if s := p.stderr.String(); !strings.Contains(s, "fanfare pub: 0 messages") || !strings.Contains(s, ", 1 subscriber,") {
		t.Errorf("standard error:\n%s", s)
	}
}

// Who is stopped while a subscriber does not read says that it did not wait for that one.
func TestPubStoppedWhileHeldUp(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	url := memURL(t)
	bus, err := pubsub.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Subscribe("md.x"); err != nil { // and nobody reads it
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
	await(t, "word of who does not read", func() bool { return strings.Contains(p.stderr.String(), "held up for") })
	p.cancel(&signalError{syscall.SIGTERM})
	p.end(t, 143)
	if s := p.stderr.String(); !strings.Contains(s, ", stopped before subscribers had everything,") || !strings.Contains(s, " never sent,") {
		t.Errorf("standard error:\n%s", s)
	}
}

// A subscriber that was there between two looks at the clock has been there.
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
	await(t, "its leave", func() bool { return strings.Contains(p.stderr.String(), "no subscriber is left") })
	typed.Close()
	p.end(t, exitOK)
	if s := p.stderr.String(); !strings.Contains(s, ", 1 subscriber,") {
		t.Errorf("standard error:\n%s", s)
	}
}

// A subscriber by a pattern is counted also by a pub that has a single message and does not wait, unless that has
// ended before the subscriber got a processor.
func TestPubCountsPatterns(t *testing.T) {
	url := memURL(t)
	start(t, nil, "sub", "-t", url, "-q", "md.>")
	start(t, strings.NewReader(""), "pub", "-t", url, "-wait", "1", "-q", "md.first").end(t, exitOK) // it is there
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
	t.Errorf("%+v", sum)
}

func TestPubCountsInItsLine(t *testing.T) {
	line := (&pub{}).line(&pubSummary{Released: 2, LeftBehind: 78, Unsent: 1})
	if want := ", 2 released subscribers, 78 subscribers left early, 1 message never sent, "; !strings.Contains(line, want) {
		t.Errorf("no %q in %s", want, line)
	}
}
