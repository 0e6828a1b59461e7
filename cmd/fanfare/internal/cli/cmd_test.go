package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

func TestPubSub(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	itch, _ := records(t, 20_000)
	for _, c := range []struct {
		framing framing
		stream  string
	}{
		{framingLines, "one\ntwo\n\nfour\n"},
		{framingLines, "no newline at the end"},
		{framingLines, strings.Repeat("a line\n", 5000) + "last"},
		{framingITCH, itch},
		{framingITCH, "\x00\x01a\x00\x00"},
		{framingWhole, itch},
		{framingWhole, ""},
	} {
		for _, faults := range []string{"", "loss=0.1,dup=0.02,reorder=0.05,seed=7"} {
			for _, fromFile := range []bool{false, true} {
				if fromFile && faults != "" {
					continue // same result as with standard input
				}
				name := fmt.Sprintf("%s-%d-%v-%v", c.framing, len(c.stream), faults != "", fromFile)
				t.Run(name, func(t *testing.T) {
					url := memURL(t)
					out := filepath.Join(t.TempDir(), "out")
					toFile := start(t, nil, "sub", "-until", "end", "-t", url, "-framing", string(c.framing), "-o", out, "-faults", faults, "x")
					toStdout := start(t, nil, "sub", "-until", "end", "-t", url, "-framing", string(c.framing), "-q", "x")
					args := []string{"pub", "-t", url, "-framing", string(c.framing), "-wait", "2", "-faults", faults, "x"}
					if fromFile {
						in := filepath.Join(t.TempDir(), "in")
						writeFile(t, in, []byte(c.stream))
						args = append(args, "-file", in)
					}
					start(t, strings.NewReader(c.stream), args...).end(t, 0)
					toFile.end(t, 0)
					toStdout.end(t, 0)
					got, err := os.ReadFile(out)
					want := asWritten(c.stream, c.framing)
					if err != nil || string(got) != want {
						t.Errorf("the file has %d bytes, %v; want the %d published", len(got), err, len(c.stream))
					}
					if toStdout.stdout.String() != want {
						t.Error("standard output differs from what was published")
					}
					if s := plainStderr(&toFile.stderr); strings.Count(s, "\n") != 1 || !strings.Contains(s, "message") {
						t.Errorf("standard error is not one summary: %q", s)
					}
					if s := plainStderr(&toStdout.stderr); s != "" {
						t.Errorf("standard error with -q is %q, want nothing", s)
					}
				})
			}
		}
	}
}

func TestRepeatAndRate(t *testing.T) {
	url := memURL(t)
	in := filepath.Join(t.TempDir(), "in")
	writeFile(t, in, []byte("a\nb"))
	s := start(t, nil, "sub", "-until", "end", "-t", url, "x")
	p := start(t, nil, "pub", "-t", url, "-wait", "1", "-file", in, "-repeat", "50", "-rate", "5000", "-json", "x")
	p.end(t, 0)
	s.end(t, 0)
	if got, want := s.stdout.String(), strings.Repeat("a\nb\n", 50); got != want {
		t.Errorf("standard output %q, want 50 times %q", got, "a\nb\n")
	}
	var sum pubSummary
	if err := json.Unmarshal([]byte(p.stdout.String()), &sum); err != nil {
		t.Fatal(err)
	}
	if sum.Messages != 100 || sum.Subscribers != 1 || !sum.Delivered || sum.Topic != "x" || sum.Error != "" {
		t.Errorf("summary %+v, want 100 messages on x, 1 subscriber, all delivered and no error", sum)
	}
}

// Without a subscriber of the topic nothing counts as delivered, even if there are pattern subscribers.
func TestPubWithoutSubscriber(t *testing.T) {
	url := memURL(t) + "?groups=1"
	s := start(t, nil, "sub", "-t", url, "-n", "1", "md.>")
	p := start(t, strings.NewReader("x\n"), "pub", "-t", url, "-json", "totally.other")
	p.end(t, 0)
	var sum pubSummary
	if err := json.Unmarshal([]byte(p.stdout.String()), &sum); err != nil {
		t.Fatal(err)
	}
	if sum.Subscribers != 0 || sum.Delivered {
		t.Errorf("summary %+v, want no subscribers and delivered false", sum)
	}
	start(t, strings.NewReader("x\n"), "pub", "-t", url, "-wait", "1", "md.x").end(t, 0)
	s.end(t, 0)
}

func TestSubJSON(t *testing.T) {
	url := memURL(t)
	s := start(t, nil, "sub", "-until", "end", "-t", url, "-json", "y")
	start(t, strings.NewReader("<text>\n\xff\xfe\n"), "pub", "-t", url, "-wait", "1", "y").end(t, 0)
	s.end(t, 0)
	list := objects(t, s.stdout.String())
	var kinds []string
	for _, o := range list {
		kinds = append(kinds, o["type"].(string))
	}
	if got, want := strings.Join(kinds, " "), "publisher message message publisher summary"; got != want {
		t.Fatalf("objects %s, want %s", got, want)
	}
	if m := list[1]; m["topic"] != "y" || m["number"] != 0.0 || m["data"] != "<text>" || m["publisher"] != list[0]["publisher"] {
		t.Errorf("message %v, want number 0 on y with the text %q from publisher %v", m, "<text>", list[0]["publisher"])
	}
	if m := list[2]; m["data_base64"] != "//4=" || m["data"] != nil {
		t.Errorf(`message %v, want data_base64 "//4=" and no data`, m)
	}
	if list[0]["event"] != "up" || list[3]["event"] != "ended" {
		t.Errorf("publisher events %v and %v, want up and ended", list[0], list[3])
	}
	if sum := list[4]; sum["messages"] != 2.0 || sum["complete"] != true || sum["end"] != "publisher" || sum["lost"] != 0.0 {
		t.Errorf("summary %v, want 2 messages, none lost, complete, ended by the publisher", sum)
	}
}

func TestSubEnds(t *testing.T) {
	t.Parallel() // the test mostly waits
	t.Run("count", func(t *testing.T) {
		url := memURL(t)
		s := start(t, nil, "sub", "-t", url, "-n", "3", "x")
		start(t, strings.NewReader("1\n2\n3\n4\n5\n"), "pub", "-t", url, "-wait", "1", "x").end(t, 0)
		s.end(t, 0)
		if got := s.stdout.String(); got != "1\n2\n3\n" {
			t.Errorf("standard output %q, want %q", got, "1\n2\n3\n")
		}
	})
	t.Run("idle without messages", func(t *testing.T) {
		s := start(t, nil, "sub", "-t", memURL(t), "-idle", "10ms", "x")
		s.end(t, 1)
		if !strings.Contains(s.stderr.String(), "no message for 10ms") {
			t.Errorf(`standard error %q, want "no message for 10ms"`, s.stderr.String())
		}
	})
	for _, c := range []struct {
		name string
		args []string
		code int
	}{{"idle", nil, 0}, {"idle before count", []string{"-n", "3"}, 1}} {
		t.Run(c.name, func(t *testing.T) {
			testenv.Slow(t)
			t.Parallel() // the test mostly waits
			url := memURL(t)
			stdin, typed := io.Pipe()
			defer typed.Close()
			s := start(t, nil, append([]string{"sub", "-t", url, "-idle", "10s", "x"}, c.args...)...)
			start(t, stdin, "pub", "-t", url, "-wait", "1", "x")
			io.WriteString(typed, "1\n2\n")
			s.end(t, c.code)
			if got := s.stdout.String(); got != "1\n2\n" {
				t.Errorf("standard output %q, want %q", got, "1\n2\n")
			}
		})
	}
	// The end of the first of two publishers does not end sub.
	t.Run("two publishers", func(t *testing.T) {
		url := memURL(t)
		stdin, typed := io.Pipe()
		s := start(t, nil, "sub", "-until", "end", "-t", url, "x")
		p := start(t, stdin, "pub", "-t", url, "-wait", "1", "x")
		io.WriteString(typed, "1\n")
		await(t, "the first message", func() bool { return s.stdout.String() == "1\n" })
		start(t, strings.NewReader("2\n"), "pub", "-t", url, "-wait", "1", "x").end(t, 0)
		await(t, "the second message", func() bool { return s.stdout.String() == "1\n2\n" })
		io.WriteString(typed, "3\n")
		typed.Close()
		p.end(t, 0)
		s.end(t, 0)
		if got := s.stdout.String(); got != "1\n2\n3\n" {
			t.Errorf("standard output %q, want %q", got, "1\n2\n3\n")
		}
	})
	// The end of a publisher of other topics in the same group does not end sub.
	t.Run("foreign publisher", func(t *testing.T) {
		url := memURL(t) + "?groups=1"
		s := start(t, nil, "sub", "-until", "end", "-t", url, "-json", "x")
		other, err := pubsub.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		p, err := other.Publisher("y")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Publish(t.Context(), []byte("not for us")); err != nil {
			t.Fatal(err)
		}
		await(t, "the publisher", func() bool { return strings.Contains(s.stdout.String(), `"up"`) })
		other.Close()
		await(t, "its end", func() bool { return strings.Contains(s.stdout.String(), `"ended"`) })
		start(t, strings.NewReader("1\n"), "pub", "-t", url, "-wait", "1", "x").end(t, 0)
		s.end(t, 0)
		if !strings.Contains(s.stdout.String(), `"messages":1,`) {
			t.Errorf(`standard output lacks "messages":1: %s`, s.stdout.String())
		}
	})
	t.Run("output fails", func(t *testing.T) {
		url := memURL(t)
		ctx := testContext(t)
		var stderr syncBuffer
		done := make(chan int)
		go func() {
			done <- Run(ctx, []string{"sub", "-until", "end", "-t", url, "x"}, nil, failingWriter{}, &stderr)
		}()
		start(t, strings.NewReader("1\n"), "pub", "-t", url, "-wait", "1", "x").end(t, 0)
		if code := <-done; code != exitIncomplete || !strings.Contains(stderr.String(), "disk is full") {
			t.Errorf(`exit code %d, standard error %q, want %d and "disk is full"`, code, stderr.String(), exitIncomplete)
		}
	})
	t.Run("too long for the framing", func(t *testing.T) {
		url := memURL(t)
		s := start(t, nil, "sub", "-until", "end", "-t", url, "-framing", "itch", "x")
		start(t, strings.NewReader(strings.Repeat("x", 65536)), "pub", "-t", url, "-framing", "whole", "-wait", "1", "x").end(t, 0)
		s.end(t, 1)
	})
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk is full") }

func TestSignals(t *testing.T) {
	url := memURL(t)
	stdin, typed := io.Pipe()
	defer typed.Close()
	s := start(t, nil, "sub", "-until", "end", "-t", url, "-json", "x")
	waiting := start(t, strings.NewReader("never\n"), "pub", "-t", url, "-wait", "9", "x")
	reading := start(t, stdin, "pub", "-t", url, "-wait", "1", "x")
	io.WriteString(typed, "1\n")
	await(t, "the message", func() bool { return strings.Contains(s.stdout.String(), `"data":"1"`) })
	waiting.cancel(&signalError{syscall.SIGINT})
	waiting.end(t, 130)
	s.cancel(&signalError{syscall.SIGTERM})
	s.end(t, 143)
	reading.cancel(&signalError{syscall.SIGINT})
	reading.end(t, 130)
	list := objects(t, s.stdout.String())
	if sum := list[len(list)-1]; sum["end"] != "signal" || sum["messages"] != 1.0 || sum["complete"] != false {
		t.Errorf("summary %v, want 1 message, not complete, ended by a signal", sum)
	}
	if !strings.Contains(reading.stderr.String(), "1 message") {
		t.Errorf(`standard error %q, want "1 message"`, reading.stderr.String())
	}
}

func TestPubFaultyStdin(t *testing.T) {
	url := memURL(t)
	s := start(t, nil, "sub", "-until", "end", "-t", url, "-framing", "itch", "x")
	p := start(t, strings.NewReader("\x00\x03abc\x00\x05d"), "pub", "-t", url, "-framing", "itch", "-wait", "1", "-q", "x")
	p.end(t, 2)
	s.end(t, 0)
	if got := s.stdout.String(); got != "\x00\x03abc" {
		t.Errorf("standard output %q, want %q", got, "\x00\x03abc")
	}
	if want := "fanfare pub: standard input: message 2, at byte 5, is truncated: 5 bytes expected, 1 present (published before it: 1 message)\n"; plainStderr(&p.stderr) != want {
		t.Errorf("standard error %q, want %q", plainStderr(&p.stderr), want)
	}
}

// Gaps name all missing messages, and the exit code is 1, whatever the flow control.
func TestSubGaps(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := memURL(t)
	s := start(t, nil, "sub", "-until", "end", "-t", url, "-json", "x")
	bus, err := pubsub.Config{FlowControl: pubsub.FlowNone, WindowBytes: 64 << 10, RepairShare: 0.01}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	p, err := bus.Publisher("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitSubscribers(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
	n := 200_000
	if testing.Short() {
		n /= 4
	}
	for i := range n {
		if err := p.Publish(t.Context(), fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	bus.Close()
	<-s.done
	// Messages and gaps must cover everything in order, each once.
	next, gaps := 0, 0
	for _, o := range objects(t, s.stdout.String()) {
		switch o["type"] {
		case "message":
			if o["data"] != fmt.Sprint(next) {
				t.Fatalf("message %v, want %d", o["data"], next)
			}
			next++
		case "gap":
			gaps++
			if o["topic"] != "x" || o["first"] != float64(next) {
				t.Fatalf("gap %v, want topic x and first number %d", o, next)
			}
			next += int(o["count"].(float64))
		}
	}
	if next != n {
		t.Errorf("messages and gaps cover %d messages, want %d", next, n)
	}
	if want := min(gaps, 1); s.code != want {
		t.Errorf("exit code %d with %d gaps, want %d", s.code, gaps, want)
	}
	if got := strings.Count(s.stderr.String(), "lost: ") + strings.Count(s.stderr.String(), "not known of which topics: "); got != gaps {
		t.Errorf("%d lines report gaps, want %d", got, gaps)
	}
}

func TestPing(t *testing.T) {
	url := memURL(t)
	responders := []*running{
		start(t, nil, "ping", "-t", url, "-listen", "-q", "here"),
		start(t, nil, "ping", "-t", url, "-listen", "here", "-faults", "loss=0.1,seed=3"),
	}
	p := start(t, nil, "ping", "-t", url, "-count", "5", "-interval", "20ms", "-size", "3000", "here")
	p.end(t, 0)
	if s := p.stdout.String(); strings.Count(s, "3000 bytes from ") < 5 || !strings.Contains(s, "5 pings of 3000 bytes sent, 5 answered") || !strings.Contains(s, "rtt min/avg/max") {
		t.Errorf("ping reports %s, want 5 or more lines of 3000 bytes, 5 answers and round-trip times", s)
	}
	p = start(t, nil, "ping", "-t", url, "-count", "200", "-interval", "0", "-json", "here")
	p.end(t, 0)
	var sum pingSummary
	if err := json.Unmarshal([]byte(p.stdout.String()), &sum); err != nil {
		t.Fatal(err)
	}
	if sum.Sent != 200 || sum.Answered != 200 || sum.Min > sum.P50 || sum.P50 > sum.P99 || sum.P99 > sum.Max*1.01 || sum.Avg < sum.Min || sum.Avg > sum.Max {
		t.Errorf("summary %+v, want 200 pings, all answered, and round-trip times in order", sum)
	}
	endless := start(t, nil, "ping", "-t", url, "-interval", "10ms", "here")
	await(t, "an answer", func() bool { return strings.Contains(endless.stdout.String(), "seq=1 ") })
	endless.cancel(&signalError{syscall.SIGINT})
	endless.end(t, 0)
	if !strings.Contains(endless.stdout.String(), "statistics") {
		t.Errorf("ping ended by a signal lacks its statistics: %s", endless.stdout.String())
	}
	for _, r := range responders {
		r.cancel(&signalError{syscall.SIGINT})
		r.end(t, 0)
	}
	alone := start(t, nil, "ping", "-t", url, "-timeout", "50ms", "nobody")
	alone.end(t, 1)
	if !strings.Contains(alone.stderr.String(), "fanfare ping -listen") {
		t.Errorf("standard error %q, want advice to run fanfare ping -listen", alone.stderr.String())
	}
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
