package cli

import (
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// With several topics sub writes the topic of each message, and runs until each topic had a
// publisher and all have ended.
func TestSubOfSeveralTopics(t *testing.T) {
	url := memURL(t)
	s := start(t, nil, "sub", "-until", "end", "-t", url, "-q", "a", "b")
	start(t, strings.NewReader("one\ntwo\n"), "pub", "-t", url, "-wait", "1", "-q", "a").end(t, exitOK)
	start(t, strings.NewReader("three\n"), "pub", "-t", url, "-wait", "1", "-q", "b").end(t, exitOK)
	s.end(t, exitOK)
	if got, want := s.stdout.String(), "a\tone\na\ttwo\nb\tthree\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A publisher that ended without a message counts for its topic or pattern.
func TestSubOfTopicsWithoutMessages(t *testing.T) {
	for _, quiet := range []string{"b", "x.*"} {
		url := memURL(t)
		s := start(t, nil, "sub", "-until", "end", "-t", url, "-q", "a", quiet)
		start(t, strings.NewReader("one\n"), "pub", "-t", url, "-wait", "1", "-q", "a").end(t, exitOK)
		select {
		case <-s.done:
			t.Fatalf("sub has ended before %s had a publisher", quiet)
		default:
		}
		start(t, strings.NewReader(""), "pub", "-t", url, "-wait", "1", "-q", strings.ReplaceAll(quiet, "*", "y")).end(t, exitOK)
		s.end(t, exitOK)
		if got := s.stdout.String(); got != "a\tone\n" {
			t.Errorf("standard output %q, want %q", got, "a\tone\n")
		}
	}
}

// The end of one publisher does not end sub while another one of the topic is up, even if it has sent nothing so far.
func TestSubStaysForTheOtherPublisher(t *testing.T) {
	url := memURL(t)
	s := start(t, nil, "sub", "-until", "end", "-t", url, "-q", "a")
	in := &slowInput{more: make(chan string), reading: make(chan struct{})}
	late := start(t, in, "pub", "-t", url, "-wait", "1", "-q", "a")
	<-in.reading // it is read after the publisher has its subscriber, so the publisher is up
	start(t, strings.NewReader("first\n"), "pub", "-t", url, "-wait", "1", "-q", "a").end(t, exitOK)
	await(t, "the first message", func() bool { return s.stdout.String() == "first\n" }) // the order of publishers is undefined
	select {
	case <-s.done:
		t.Fatalf("sub has ended with the first publisher: %s", s.stdout.String())
	default:
	}
	in.more <- "second\n"
	close(in.more)
	late.end(t, exitOK)
	s.end(t, exitOK)
	if got, want := s.stdout.String(), "first\nsecond\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// slowInput is standard input with data arriving in pieces.
type slowInput struct {
	more    chan string
	reading chan struct{} // closed by the first Read
	once    sync.Once
}

func (r *slowInput) Read(p []byte) (int, error) {
	r.once.Do(func() { close(r.reading) })
	text, ok := <-r.more
	if !ok {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

// If messages of several topics are written without their topics, sub warns of it.
func TestSubWarnsOfMixedTopics(t *testing.T) {
	url, file := memURL(t), filepath.Join(t.TempDir(), "copy")
	for flags, reported := range map[string]bool{
		"-o " + file + " a b": true, "-framing itch a b": true, "-framing whole a.>": true, "-json -o " + file + " a b": true,
		"a b": false, "-json a b": false, "-o " + file + " a": false, "-q -o " + file + " a b": false,
	} {
		s := start(t, nil, append([]string{"sub", "-t", url, "-until", "1ms"}, strings.Fields(flags)...)...)
		s.end(t, exitOK)
		if text := s.stderr.String(); strings.Contains(text, "without their topics") != reported {
			t.Errorf("sub %s printed %q, want the report of missing topics: %v", flags, text, reported)
		}
	}
}

// -until ends sub in any case; with -n that is an error if too few messages arrived.
func TestSubUntil(t *testing.T) {
	url := memURL(t)
	start(t, nil, "sub", "-t", url, "-until", "50ms", "-q", "x").end(t, exitOK)
	s := start(t, nil, "sub", "-t", url, "-until", "50ms", "-n", "3", "x")
	s.end(t, exitIncomplete)
	if text := s.stderr.String(); !strings.Contains(text, "-until 50ms has passed: 0 of 3 messages received") {
		t.Errorf(`standard error %q lacks "-until 50ms has passed: 0 of 3 messages received"`, text)
	}
	s = start(t, nil, "sub", "-t", url, "-until", "-1s", "x")
	s.end(t, exitUsage)
	s = start(t, nil, "sub", "-t", url, "-until", "50ms", "-json", "x")
	s.end(t, exitOK)
	if list := objects(t, s.stdout.String()); len(list) != 1 || list[0]["end"] != "until" || list[0]["complete"] != true {
		t.Errorf("objects %v, want one summary, complete, ended by until", list)
	}
}
