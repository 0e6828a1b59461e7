package cli

import (
	"strings"
	"testing"
)

// docs/protocol.md §4.6, §9.8.
func TestSubFrom(t *testing.T) {
	url := memURL(t)
	in := &stuckReader{r: strings.NewReader("one\ntwo\nthree\n"), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "x")
	for _, c := range [][3]string{{"window", "3", "one\ntwo\nthree\n"}, {"1", "2", "two\nthree\n"}} {
		sub := start(t, nil, "sub", "-t", url, "-q", "-from", c[0], "-n", c[1], "x")
		sub.end(t, exitOK)
		if got := sub.stdout.String(); got != c[2] {
			t.Errorf("-from %s: %q, want %q", c[0], got, c[2])
		}
	}
	close(in.done)
	pub.end(t, exitOK)
}

func TestSubFromNumberOfPattern(t *testing.T) {
	sub := start(t, nil, "sub", "-t", memURL(t), "-from", "3", "x", "md.>")
	sub.end(t, exitUsage)
	if text := sub.stderr.String(); !strings.Contains(text, `-from 3`) || !strings.Contains(text, `"md.>" is a pattern`) {
		t.Error(text)
	}
}

// stuckReader ends when it is told to.
type stuckReader struct {
	r    *strings.Reader
	done chan struct{}
}

func (s *stuckReader) Read(b []byte) (int, error) {
	if s.r.Len() == 0 {
		<-s.done
	}
	return s.r.Read(b)
}

// A line that pub keeps is written by a sub that comes later. docs/protocol.md §25.
func TestSubFromState(t *testing.T) {
	url := memURL(t)
	in := &stuckReader{r: strings.NewReader("one\ntwo\nthree\n"), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "-retain", "x")
	for _, c := range [][]string{{"three\n"}, {`{"type":"state","topic":"x","next":3,`, "-json"}} {
		sub := start(t, nil, append([]string{"sub", "-t", url, "-q", "-from", "state", "-n", "1"}, append(c[1:], "x")...)...)
		sub.end(t, exitOK)
		if got := sub.stdout.String(); !strings.Contains(got, c[0]) {
			t.Errorf("%v: %q, want %q", c[1:], got, c[0])
		}
	}
	close(in.done)
	pub.end(t, exitOK)
}

func TestSubFromStateOfPattern(t *testing.T) {
	sub := start(t, nil, "sub", "-t", memURL(t), "-from", "state", "md.>")
	sub.end(t, exitUsage)
	if text := sub.stderr.String(); !strings.Contains(text, `"md.>" is a pattern`) {
		t.Error(text)
	}
}
