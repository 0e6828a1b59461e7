package cli

import (
	"slices"
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

// So is each that matches a pattern. docs/protocol.md §25.9.
func TestSubFromStateOfPattern(t *testing.T) {
	url := memURL(t) + "?groups=4"
	var pubs []*running
	done := make(chan struct{})
	for _, topic := range []string{"md.a", "md.b", "md.c", "other"} {
		in := &stuckReader{r: strings.NewReader("before\n" + topic + "\n"), done: done}
		pubs = append(pubs, start(t, in, "pub", "-t", url, "-q", "-retain", topic))
	}
	sub := start(t, nil, "sub", "-t", url, "-q", "-from", "state", "-n", "3", "md.>")
	sub.end(t, exitOK)
	lines := strings.Split(strings.TrimSpace(sub.stdout.String()), "\n")
	if slices.Sort(lines); !slices.Equal(lines, []string{"md.a\tmd.a", "md.b\tmd.b", "md.c\tmd.c"}) {
		t.Errorf("%q", lines)
	}
	close(done)
	for _, p := range pubs {
		p.end(t, exitOK)
	}
}
