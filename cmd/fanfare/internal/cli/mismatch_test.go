package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// far is a topic that 16 and 64 groups map differently.
const far = "newsa"

// A command that waits for messages or subscribers of a bus with another number of groups ends with
// its own exit code and reports the reason.
func TestMismatchEndsTheWait(t *testing.T) {
	synctest.Test(t, testMismatchEndsTheWait) // virtual time, so that -idle does not race with the report
}

func testMismatchEndsTheWait(t *testing.T) {
	url := "mem://" + t.Name()
	const wantText = "is configured differently: groups 64 there, 16 here"
	sub := start(t, nil, "sub", "-t", url+"?groups=16", "-n", "1", far)
	lines := start(t, nil, "sub", "-t", url+"?groups=16", "-n", "1", "-json", far)
	idle := start(t, nil, "sub", "-t", url+"?groups=16", "-idle", "5s", far)
	subscriber := start(t, nil, "sub", "-t", url+"?groups=16", far)
	pub := start(t, strings.NewReader("hello\n"), "pub", "-t", url+"?groups=64", "-json", "-wait", "1", far)
	pub.end(t, exitMismatch)
	var sum pubSummary
	out := strings.Split(strings.TrimSpace(pub.stdout.String()), "\n")
	if err := json.Unmarshal([]byte(out[len(out)-1]), &sum); err != nil || sum.Mismatch == nil || sum.Mismatch.Differences[0].Theirs != "16" || sum.Mismatch.Differences[0].Ours != "64" {
		t.Errorf(`error %v, summary %s, want a mismatch of "16" (subscriber) with "64" (publisher)`, err, pub.stdout.String())
	}
	if s := pub.stderr.String(); !strings.Contains(s, "groups 16 there, 64 here") || !strings.Contains(s, "groups= in the URL") {
		t.Errorf("pub printed %s, want the mismatch of groups 16 and 64", s)
	}
	// The publisher has gone, possibly before all subscribers looked for it.
	again := start(t, nil, "ping", "-listen", "-t", url+"?groups=64", "other")
	more := start(t, strings.NewReader(""), "pub", "-t", url+"?groups=64", "-wait", "2", far)
	for _, r := range []*running{sub, lines, idle} {
		r.end(t, exitMismatch)
		if !strings.Contains(r.stderr.String(), wantText) {
			t.Errorf("the command printed %s, want %q", r.stderr.String(), wantText)
		}
	}
	if s := lines.stdout.String(); !strings.Contains(s, `{"type":"mismatch","publisher":`) || !strings.Contains(s, `"field":"groups","ours":"16","theirs":"64"`) || !strings.Contains(s, `"end":"mismatch"`) {
		t.Errorf("sub -json printed %s, want an object and an end of the mismatch", s)
	}
	await(t, "the report", func() bool { return strings.Contains(subscriber.stderr.String(), wantText) })
	subscriber.cancel(&signalError{syscall.SIGINT})
	subscriber.end(t, 130)
	more.cancel(&signalError{syscall.SIGINT})
	<-more.done
	again.cancel(&signalError{syscall.SIGINT})
	again.end(t, 0)
}

// sub also reports it when -until passes without a message; pub that waited for no subscriber does
// not report that all was delivered.
func TestMismatchIsReportedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := "mem://" + t.Name()
		until := start(t, nil, "sub", "-t", url+"?groups=16", "-until", "5s", "-json", far)
		in := &slowInput{more: make(chan string), reading: make(chan struct{})}
		pub := start(t, in, "pub", "-t", url+"?groups=64", "-json", "-q", far)
		in.more <- "hello\n"
		until.end(t, exitMismatch)
		if s := until.stdout.String(); !strings.Contains(s, `"complete":false`) {
			t.Errorf(`sub printed %s, want "complete":false`, s)
		}
		close(in.more)
		pub.end(t, exitOK)
		if s := pub.stdout.String(); !strings.Contains(s, `"type":"mismatch"`) || !strings.Contains(s, `"delivered":false`) {
			t.Errorf(`pub printed %s, want a mismatch and "delivered":false`, s)
		}
	})
}

// A requester whose subscribers have a different configuration reports that, and not that there are none.
func TestRequestMismatch(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := "mem://" + t.Name()
	answers := start(t, nil, "reply", "-t", url+"?groups=16", far, "yes")
	await(t, "it", func() bool { return strings.Contains(answers.stderr.String(), "replying") })
	requester := start(t, nil, "request", "-t", url+"?groups=64", "-wait", "1", far, "well?")
	requester.end(t, exitMismatch)
	if s := requester.stderr.String(); !strings.Contains(s, "is configured differently: groups 16 there, 64 here") || strings.Count(s, "differently") != 1 {
		t.Errorf("request printed %s, want one mismatch of groups 16 and 64", s)
	}
	await(t, "the report of the other side", func() bool { return strings.Contains(answers.stderr.String(), report.Mismatch.Text) })
	answers.cancel(&signalError{syscall.SIGINT})
	answers.end(t, 0)
}

func TestPingMismatch(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url := "mem://" + t.Name()
	listen := start(t, nil, "ping", "-listen", "-t", url+"?groups=16")
	ping := start(t, nil, "ping", "-t", url+"?groups=64", "-timeout", "30s")
	ping.end(t, exitMismatch)
	if s := ping.stderr.String(); !strings.Contains(s, "no answer to pings to default") || !strings.Contains(s, "groups 16 there, 64 here") {
		t.Errorf("ping printed %s, want no answer and the mismatch of groups 16 and 64", s)
	}
	await(t, "the report", func() bool { return strings.Contains(listen.stderr.String(), "groups 64 there, 16 here") })
	listen.cancel(&signalError{syscall.SIGINT})
	listen.end(t, 0)
}
