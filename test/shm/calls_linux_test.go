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

// messagesPerCall is the minimum number of messages of a side per system call. All kinds count: also those of Go's
// runtime, of starting and exiting a process, and of the bench. A packet has 110 messages: a call per packet would
// be detected. The number is 3,000 on an idle host; on a busy one there are as many calls, but fewer messages.
const messagesPerCall = 300

// A publisher at full rate over shared memory and its subscriber make no system call per message. All calls of all
// threads count, in the processes that fanfare bench measures, from their start to their end. docs/protocol §28.8.
func TestSystemCalls(t *testing.T) {
	testenv.Slow(t)
	if testing.Short() { // the race detector is on
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
		side.process.Kill() // waits for its end
		calls := counted(t, side.calls)
		t.Logf("%s: %d messages, %d system calls: one per %d messages", side.name, side.messages, calls, side.messages/max(calls, 1))
		if side.messages < messagesPerCall*calls {
			t.Errorf("the %s made %d system calls for %d messages: want at most one per %d messages", side.name, calls, side.messages, messagesPerCall)
		}
	}
}

// manyCalls is how many system calls a process with role "calls" makes, besides those of Go's runtime.
const manyCalls = 10_000

func callMany(string) error {
	for range manyCalls {
		syscall.Getppid()
	}
	return nil
}

// mustCount skips the test if system calls cannot be counted, and verifies that all are counted, and few others.
func mustCount(t *testing.T, exe string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), countVar+"="+file, roleVar+"=calls")
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == untraceable {
		testenv.Skip(t, "processes may not trace others on this host: %s", out)
	}
	if n := counted(t, file); n < manyCalls || n > 2*manyCalls {
		t.Fatalf("counted %d system calls, want %d to %d: %v: %s", n, manyCalls, 2*manyCalls, err, out)
	}
}

// counted reads the number of counted system calls.
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
