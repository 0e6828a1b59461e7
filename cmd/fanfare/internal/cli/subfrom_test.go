package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// docs/protocol §4.6, §9.8.
func TestSubFrom(t *testing.T) {
	url := memURL(t)
	in := &stuckReader{r: strings.NewReader("one\ntwo\nthree\n"), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "x")
	file := filepath.Join(t.TempDir(), "at.json")
	for _, c := range [][3]string{{"window", "3", "one\ntwo\nthree\n"}, {"file:" + file, "1", "one\n"}, {"file:" + file, "2", "two\nthree\n"}} {
		sub := start(t, nil, "sub", "-t", url, "-q", "-from", c[0], "-n", c[1], "x")
		sub.end(t, exitOK)
		if got := sub.stdout.String(); got != c[2] {
			t.Errorf("-from %s: %q, want %q", c[0], got, c[2])
		}
	}
	if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), `"topic":"x","next":3}`) {
		t.Errorf("state file %s, error %v, want next 3 of topic x", data, err)
	}
	close(in.done)
	pub.end(t, exitOK)
}

func TestSubFromIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "at.json")
	writeFile(t, file, []byte("{}"))
	for from, want := range map[string]string{"1500": "live, window, state, file:FILE", "file:": "needs a file name", "file:" + file: "cannot unmarshal", "file:/there/is/none": "/there/is/none"} {
		out := filepath.Join(t.TempDir(), "out")
		writeFile(t, out, []byte("before"))
		sub := start(t, nil, "sub", "-t", memURL(t), "-o", out, "-from", from, "x")
		sub.end(t, exitUsage)
		if kept, err := os.ReadFile(out); err != nil || string(kept) != "before" {
			t.Errorf("-from %s: the output is %q, error %v, want it unchanged", from, kept, err)
		}
		if text := sub.stderr.String(); !strings.Contains(text, want) {
			t.Errorf("-from %s: standard error %q lacks %q", from, text, want)
		}
	}
}

// stuckReader returns EOF only when done is closed.
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

// A message retained by pub is received by a later sub. docs/protocol §25.
func TestSubFromState(t *testing.T) {
	url := memURL(t)
	in := &stuckReader{r: strings.NewReader("one\ntwo\nthree\n"), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "-retain", "x")
	for _, c := range [][]string{{"three\n"}, {`{"type":"state","topic":"x","next":3,`, "-json"}} {
		sub := start(t, nil, append([]string{"sub", "-t", url, "-q", "-from", "state", "-n", "1"}, append(c[1:], "x")...)...)
		sub.end(t, exitOK)
		if got := sub.stdout.String(); !strings.Contains(got, c[0]) {
			t.Errorf("sub -from state %v: standard output %q, want %q", c[1:], got, c[0])
		}
	}
	close(in.done)
	pub.end(t, exitOK)
}

// The same for every topic that matches a pattern. docs/protocol §25.9.
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
		t.Errorf("lines %q, want the states of md.a, md.b and md.c", lines)
	}
	close(done)
	for _, p := range pubs {
		p.end(t, exitOK)
	}
}

// State records count like messages and are written like them: for -idle, for -n with -until, in
// the summary, and with -json into the file of -o. A conflating reader also begins with the state.
func TestSubFromStateCounts(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := memURL(t)
	in := &stuckReader{r: strings.NewReader("one\ntwo\nthree\n"), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "-retain", "x")
	file := filepath.Join(t.TempDir(), "out")
	cases := []struct {
		args string
		exit int
		out  string // in stdout
		err  string // in stderr
	}{
		{"-idle 8s", exitOK, "three\n", "0 messages, 1 record of state, 0 gaps"},
		{"-idle 8s -slow conflate", exitOK, "three\n", ""},
		{"-n 3 -until 8s", exitIncomplete, "three\n", "1 of 3 messages received"},
		{"-idle 8s -json -o " + file, exitOK, `"state_records":1`, ""},
	}
	var subs []*running
	for _, c := range cases {
		subs = append(subs, start(t, nil, append(append([]string{"sub", "-until", "end", "-t", url, "-from", "state"}, strings.Fields(c.args)...), "x")...))
	}
	for i, c := range cases {
		subs[i].end(t, c.exit)
		if out := subs[i].stdout.String(); !strings.Contains(out, c.out) || strings.Contains(c.args, "-json") != strings.Contains(out, `"type":"state_end"`) {
			t.Errorf("%s: %q is written, want %q", c.args, out, c.out)
		}
		stopped := c.exit == exitIncomplete && strings.Contains(subs[i].stderr.String(), "this process did not run until just now")
		if text := subs[i].stderr.String(); !strings.Contains(text, c.err) && !stopped {
			t.Errorf("%s: standard error %q, want %q", c.args, text, c.err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "three\n" {
		t.Errorf("the file has %q, error %v, want %q", data, err, "three\n")
	}
	close(in.done)
	pub.end(t, exitOK)
}

// A topic that begins without its state is counted and makes sub end with 1. A topic received from
// its first message on needs no state.
func TestSubFromStateWithout(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := memURL(t)
	in := &stuckReader{r: strings.NewReader("one\n"), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "x")
	start(t, nil, "sub", "-t", url, "-q", "-from", "window", "-n", "1", "x").end(t, exitOK)
	sub := start(t, nil, "sub", "-t", url, "-json", "-from", "state", "-idle", "3s", "x")
	sub.end(t, exitIncomplete)
	if out := sub.stdout.String(); !strings.Contains(out, `"type":"no_state"`) || !strings.Contains(out, `"no_state":1`) || !strings.Contains(out, `"complete":false`) {
		t.Errorf("sub -json -from state writes %s, want no_state of 1 topic and complete false", out)
	}
	if text := sub.stderr.String(); !strings.Contains(text, "1 topic without state") {
		t.Errorf(`standard error %q lacks "1 topic without state"`, text)
	}
	close(in.done)
	pub.end(t, exitOK)

	url = memURL(t)
	sub = start(t, nil, "sub", "-t", url, "-q", "-from", "state", "-n", "2", "x")
	pub = start(t, strings.NewReader("one\ntwo\n"), "pub", "-t", url, "-q", "-retain", "-wait", "1", "x")
	sub.end(t, exitOK)
	pub.end(t, exitOK)
	if out := sub.stdout.String(); out != "one\ntwo\n" {
		t.Errorf("standard output %q, want %q", out, "one\ntwo\n")
	}
}

// A sub that ends before the requested data could arrive reports that it may still have been on its way.
func TestUntilBeforeTheBeginning(t *testing.T) {
	url := memURL(t)
	for _, c := range []struct {
		from     string
		reported bool
	}{{"window", true}, {"live", false}} {
		r := runWith(t.Context(), "", "sub", "-t", url, "-from", c.from, "-until", "20ms", "x")
		if reported := strings.Contains(r.stderr, "the data that -from window requests may take longer"); r.code != exitOK || reported != c.reported {
			t.Errorf("-from %s: exit code %d, standard error %q, want %d and the warning: %v", c.from, r.code, r.stderr, exitOK, c.reported)
		}
	}
}
