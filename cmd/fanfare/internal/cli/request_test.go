package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

func TestRequestAndReply(t *testing.T) {
	url := memURL(t)
	fixed := start(t, nil, "reply", "-t", url, "-name", "fixed", "-tag", "a", "rpc.x", "all is well\n")
	cmd := start(t, nil, "reply", "-t", url, "-name", "cmd", "-json", "-exec", `tr a-z A-Z; printf " $FANFARE_TOPIC"; test "$FANFARE_TOPIC" != rpc.bad`, "rpc.>")
	r := start(t, nil, "request", "-t", url, "-replies", "2", "-wait", "2", "rpc.x", "hello")
	r.end(t, 0)
	if s := r.stdout.String(); strings.Count(s, "\n") != 2 || !strings.Contains(s, "all is well\n") || !strings.Contains(s, "HELLO rpc.x\n") {
		t.Errorf("replies %q, want %q and %q", s, "all is well\n", "HELLO rpc.x\n")
	}
	r = start(t, strings.NewReader("from stdin"), "request", "-t", url, "-json", "-replies", "0", "rpc.x")
	r.end(t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout.String()), "\n")
	var sum requestSummary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || sum.Replies == 0 || sum.Type != "summary" || len(lines) != sum.Replies+1 {
		t.Errorf("error %v, summary %+v, want one object for each reply before it: %s", err, sum, r.stdout.String())
	}
	var x jsonReply
	if err := json.Unmarshal([]byte(lines[0]), &x); err != nil || x.Type != "reply" || x.Name == "" || x.Data == nil || x.After <= 0 {
		t.Errorf("error %v, first reply %s, want a name, data and a time", err, lines[0])
	}
	bad := start(t, nil, "request", "-t", url, "-timeout", "1h", "rpc.bad", "x")
	await(t, "a request without a reply", func() bool { return strings.Contains(cmd.stdout.String(), `"error":"exit status 1"`) })
	bad.cancel(&signalError{syscall.SIGINT})
	bad.end(t, 130)
	fixed.cancel(&signalError{syscall.SIGINT})
	fixed.end(t, 0)
	cmd.cancel(&signalError{syscall.SIGINT})
	cmd.end(t, 1) // one had no reply
	if s := cmd.stdout.String(); !strings.Contains(s, `"failed":1`) || !strings.Contains(s, `"topic":"rpc.bad"`) {
		t.Errorf(`reply -json writes %s, want "failed":1 and the topic rpc.bad`, s)
	}
	unanswered := start(t, nil, "request", "-t", url, "-json", "other", "x")
	unanswered.end(t, 1)
	if s := unanswered.stderr.String(); !strings.Contains(s, "other has no subscriber") || !strings.Contains(unanswered.stdout.String(), `"error":`) {
		t.Errorf("standard error %q, want that other has no subscriber, and an error in the summary", s)
	}
	two := start(t, nil, "reply", "-t", url, "-n", "2", "-q", "rpc.y", "yes")
	for range 2 {
		start(t, nil, "request", "-t", url, "-wait", "1", "rpc.y", "").end(t, 0)
	}
	two.end(t, 0)
}

// A pattern subscriber in the same group that does not match the topic owes no reply.
func TestRequestWithUnrelatedPattern(t *testing.T) {
	url := memURL(t) + "?groups=1"
	start(t, nil, "reply", "-t", url, "-name", "calc", "calc.add", "3")
	start(t, nil, "sub", "-t", url, "-name", "other", "md.>")
	for range 2 {
		r := start(t, nil, "request", "-t", url, "-replies", "0", "-wait", "1", "-timeout", "1h", "calc.add", "1 2")
		r.end(t, exitOK)
		if s := r.stdout.String(); s != "3\n" {
			t.Errorf("standard output %q, want %q; standard error %s", s, "3\n", r.stderr.String())
		}
	}
}

// A running command does not prevent reply from ending when interrupted.
func TestReplyEndsBeforeItsCommand(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	url, dir := memURL(t), t.TempDir()
	started, finished := filepath.Join(dir, "started"), filepath.Join(dir, "finished")
	reply := start(t, nil, "reply", "-t", url, "-jobs", "1", "-exec", "(touch "+started+"; sleep 10; touch "+finished+") & wait", "rpc.x")
	ask := start(t, nil, "request", "-t", url, "-wait", "1", "-timeout", "1h", "rpc.x", "hello")
	await(t, "the command runs", func() bool { _, err := os.Stat(started); return err == nil })
	reply.cancel(&signalError{syscall.SIGINT})
	reply.end(t, 1) // the request has no reply
	if _, err := os.Stat(finished); err == nil {
		t.Error("reply waited for its command")
	}
	ask.cancel(&signalError{syscall.SIGINT})
	<-ask.done
}

// A requester that has gone is reported, and is no failure.
func TestReplySummaryLine(t *testing.T) {
	for want, s := range map[string]replySummary{
		"2 requests, 2 answered":                                    {Requests: 2, Answered: 2},
		"1 request, 0 answered, 1 too late: the requester had gone": {Requests: 1, Late: 1},
	} {
		if got := s.line(); got != want {
			t.Errorf("summary %q, want %q", got, want)
		}
	}
}
