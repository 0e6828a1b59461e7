package shm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// messagesPerCall is how many messages a side moves at least for each system call, of whatever kind: those of Go's
// runtime, of a process that begins and ends, and of the bench count too. A packet holds 110: one call for each is
// seen. It is 3,000 on an idle host; on one where others take half of the time the calls stay and the messages do not.
const messagesPerCall = 300

// Who publishes at full rate over shared memory, and who is subscribed, makes no system call per message. All are counted, of
// all threads, in the processes that fanfare bench measures, from their beginning to their end. docs/protocol §28.8.
func TestSystemCalls(t *testing.T) {
	testenv.Slow(t)
	if testing.Short() { // with the race detector
		t.Skip("the race detector makes a message take as long as a system call")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mustCount(t, exe)
	d := bench.Defaults("shm")
	spec := worker.Spec{
		Contender: contenders.Fanfare, URL: "shm://calls?dir=" + scratch(t), Topic: topic, Load: worker.LoadFull,
		Sockets: d.Sockets, Traffic: d.Traffic, Shape: d.Shape,
	}
	begin := func(role worker.Role) (p *worker.Process, calls string) {
		t.Helper()
		calls = filepath.Join(t.TempDir(), "calls")
		t.Setenv(countVar, calls)
		s := spec
		s.Role = role
		p, err := worker.Start(exe, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Abort)
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p, calls
	}
	sub, subCalls := begin(worker.RoleSubscribe)
	pub, pubCalls := begin(worker.RolePublish)
	published, err := pub.Reports(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sub.Stop()
	received, err := sub.Reports(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, side := range []struct {
		name     string
		process  *worker.Process
		calls    string
		messages uint64
	}{{"publisher", pub, pubCalls, published[0].Messages}, {"subscriber", sub, subCalls, received[0].Messages}} {
		side.process.Kill() // which waits for its end
		calls := counted(t, side.calls)
		t.Logf("%s: %d messages, %d system calls: one for %d", side.name, side.messages, calls, side.messages/max(calls, 1))
		if side.messages < messagesPerCall*calls {
			t.Errorf("the %s made %d system calls for %d messages: want one for %d at most", side.name, calls, side.messages, messagesPerCall)
		}
	}
}

// known is how many system calls a process of role "calls" makes beside those of Go's runtime.
const known = 10_000

func callMany(string) error {
	for range known {
		syscall.Getppid()
	}
	return nil
}

// mustCount leaves the test out where system calls cannot be counted, and makes sure that all are, and few more.
func mustCount(t *testing.T, exe string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), countVar+"="+file, roleVar+"=calls")
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == untraceable {
		testenv.Skip(t, "a process may not trace another here: %s", out)
	}
	if n := counted(t, file); n < known || n > 2*known {
		t.Fatalf("%d system calls were counted of a process that makes %d and some of its runtime's: %v: %s", n, known, err, out)
	}
}

// counted reads how many system calls were counted.
func counted(t *testing.T, file string) uint64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
