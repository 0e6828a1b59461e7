package cli

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Without flags sub runs on when its publishers end, and receives later ones.
func TestSubStaysUntilInterrupted(t *testing.T) {
	url := memURL(t)
	s := start(t, nil, "sub", "-t", url, "-q", "-name", "desk", "x")
	for _, text := range []string{"1\n", "2\n"} {
		p := start(t, strings.NewReader(text), "pub", "-t", url, "-wait", "1", "-v", "x")
		p.end(t, exitOK)
		if output := p.stderr.String(); !strings.Contains(output, "name=desk") {
			t.Errorf("pub does not report the name of its subscriber: %s", output)
		}
	}
	await(t, "both messages", func() bool { return s.stdout.String() == "1\n2\n" })
	select {
	case <-s.done:
		t.Fatal("sub has ended with its publishers")
	default:
	}
	s.cancel(&signalError{syscall.SIGINT})
	s.end(t, 130)
}

func TestSubUntilWord(t *testing.T) {
	for text, want := range map[string]time.Duration{"end": untilEnd, "5s": 5 * time.Second} {
		if got, err := parseUntil(text); err != nil || got != want {
			t.Errorf("-until %q is %v, error %v, want %v", text, got, err, want)
		}
	}
	for _, wrong := range []string{"ends", "-1s", "0s", ""} {
		if r := runWith(t.Context(), "", "sub", "-t", memURL(t), "-until", wrong, "x"); r.code != exitUsage {
			t.Errorf("-until %q: exit code %d, %s", wrong, r.code, r.stderr)
		}
	}
}

// sub reports after some time, and only then, that it detects no publisher.
func TestSubReportsNoPublisher(t *testing.T) {
	t.Setenv("FANFARE_INSPECT", "off") // a socket would stop virtual time
	for _, there := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			url := memURL(t)
			s := start(t, nil, "sub", "-t", url, "x")
			if there {
				start(t, strings.NewReader("1\n"), "pub", "-t", url, "-wait", "1", "-q", "x").end(t, exitOK)
			}
			time.Sleep(noPublisherAfter - time.Second)
			reported := func() bool { return strings.Contains(s.stderr.String(), "no publisher of x detected") }
			if reported() {
				t.Errorf("reported too early: %s", s.stderr.String())
			}
			time.Sleep(2 * time.Second)
			if reported() == there {
				t.Errorf("with a publisher: %v, its absence is reported: %v, want %v: %q", there, there, !there, s.stderr.String())
			}
			s.cancel(&signalError{syscall.SIGINT})
			s.end(t, 130)
		})
	}
}

// With -until end a topic without a publisher, such as a misspelled one, is reported when the others have ended.
func TestSubReportsTopicsWithoutPublisher(t *testing.T) {
	url := memURL(t)
	s := start(t, nil, "sub", "-t", url, "-until", "end", "x", "y.typo")
	start(t, strings.NewReader("1\n"), "pub", "-t", url, "-wait", "1", "x").end(t, exitOK)
	await(t, "the report of the topic", func() bool {
		return strings.Contains(s.stderr.String(), "-until end still waits for a publisher of y.typo")
	})
	s.cancel(&signalError{syscall.SIGINT})
	s.end(t, 130)
}
