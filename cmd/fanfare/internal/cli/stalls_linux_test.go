package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// manyLines is a file of 300,000 messages, 24 MB: more than all windows and pipes together hold.
func manyLines(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "in")
	writeFile(t, name, []byte(strings.Repeat(strings.Repeat("x", 79)+"\n", 300_000)))
	return name
}

func awaitText(t *testing.T, what string, p *process, texts ...string) {
	t.Helper()
	for ctx := testContext(t); ; time.Sleep(10 * time.Millisecond) {
		missing := ""
		for _, text := range texts {
			if !strings.Contains(p.stderr.String(), text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s lacks %q in:\n%s", what, missing, p.stderr.String())
		}
	}
}

// stop sends SIGSTOP, and waits until the process has stopped, which takes a while on a busy host.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			return
		case unix.EINTR:
		default:
			t.Fatalf("waiting until the process has stopped: %v", err)
		}
	}
}

// A sub whose output is not read blocks pub. Both report it while it lasts; then pub continues
// without it, and the other sub receives everything.
func TestSubWithUnreadOutput(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url, in := loopbackURL(t), manyLines(t)
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stopped := &process{cmd: exec.CommandContext(testContext(t), path, "sub", "-until", "end", "-t", url, "-json", "x"), waited: make(chan struct{})}
	stopped.cmd.Stdout, stopped.cmd.Stderr = w, &stopped.stderr // and r is never read
	if err := stopped.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		defer close(stopped.waited)
		stopped.cmd.Wait()
	}()
	t.Cleanup(stopped.kill)
	out := filepath.Join(t.TempDir(), "out")
	neighbour := spawn(t, "sub", "-until", "end", "-t", url, "-o", out, "x")
	pub := spawn(t, "pub", "-t", url, "-wait", "2", "-stall-limit", "2s", "-file", in, "-json", "x")
	awaitText(t, "pub", pub, "blocked for ", "which reads nothing", "was released after", "continuing after")
	awaitText(t, "sub", stopped, "this process has blocked publisher ", "messages on x have not been read", "no longer waits for this process")
	pub.end(t, 1)
	if text := pub.stdout.String(); !strings.Contains(text, `{"type":"stall","event":"stalled","subscriber":"`) ||
		!strings.Contains(text, `"event":"released"`) || !strings.Contains(text, `"released":1,`) || !strings.Contains(text, `"delivered":false`) {
		t.Errorf("pub -json, want 1 released subscriber and not delivered:\n%s", text)
	}
	neighbour.end(t, 0)
	equal(t, "the neighbour", read(t, out), read(t, in))
}

// A stopped subscriber is silent: pub gives it up, names it, and continues.
func TestStoppedSub(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url, in := loopbackURL(t), manyLines(t)
	stopped := spawn(t, "sub", "-until", "end", "-t", url, "x")
	out := filepath.Join(t.TempDir(), "out")
	neighbour := spawn(t, "sub", "-until", "end", "-t", url, "-o", out, "x")
	pub := spawn(t, "pub", "-t", url, "-wait", "2", "-rate", "100000", "-file", in, "x")
	for ctx := testContext(t); stopped.stdout.String() == ""; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("nothing received")
		}
	}
	stopped.stop(t)
	awaitText(t, "pub", pub, " at 127.0.0.1:", " stopped answering")
	pub.end(t, 1)
	neighbour.end(t, 0)
	equal(t, "the neighbour", read(t, out), read(t, in))
	if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-stopped.waited
	if code := stopped.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stopped.stderr.String(), "lost") {
		t.Errorf("exit code %d, want 1 and a loss:\n%s", code, stopped.stderr.String())
	}
}

// A sub that was stopped for longer than its -idle still reads the messages of that time.
func TestIdleSubThatIsStopped(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url := loopbackURL(t)
	const idle = 4 * time.Second // a busy host must not take this long between the message and the stop
	s := spawn(t, "sub", "-t", url, "-idle", idle.String(), "-n", "2", "x")
	p := spawn(t, "pub", "-t", url, "-wait", "1", "x")
	if _, err := p.stdin.Write([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	await(t, "the message", func() bool { return s.stdout.String() != "" })
	s.stop(t)
	stopped := time.Now()
	if _, err := p.stdin.Write([]byte("2\n")); err != nil {
		t.Fatal(err)
	}
	awaitText(t, "pub", p, " stopped answering, silent for ")
	time.Sleep(time.Until(stopped.Add(idle + idle/4)))
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.end(t, exitOK)
	if got := s.stdout.String(); got != "1\n2\n" {
		t.Errorf("standard output %q, want %q", got, "1\n2\n")
	}
}

// A stopped pub is reported, and that it is received again.
func TestStoppedPub(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url := loopbackURL(t)
	s := spawn(t, "sub", "-t", url, "x")
	p := spawn(t, "pub", "-t", url, "-wait", "1", "-rate", "1000", "-repeat", "1000", "-file", manyLines(t), "x")
	await(t, "a message", func() bool { return s.stdout.String() != "" })
	p.stop(t)
	awaitText(t, "sub", s, "fell silent before its end: it was killed, stopped or disconnected")
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitText(t, "sub", s, " is received again, after ")
}

// A sub that was stopped beyond its -until does not report success, although it has everything that it knows of: it
// cannot know what it missed. pub reports how long it was silent and how far behind.
func TestSubThatIsStopped(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	url := loopbackURL(t)
	s := spawn(t, "sub", "-t", url, "-until", "8s", "-json", "x")
	p := spawn(t, "pub", "-t", url, "-wait", "1", "x")
	if _, err := p.stdin.Write([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	await(t, "the message", func() bool { return strings.Contains(s.stdout.String(), `"message"`) })
	s.stop(t)
	stopped := time.Now()
	if _, err := p.stdin.Write([]byte("2\n")); err != nil {
		t.Fatal(err)
	}
	awaitText(t, "pub", p, " stopped answering, silent for ", " behind: pub no longer waits for it")
	p.kill()                                              // if closed, it would send its end to the socket of the stopped sub, which would be complete
	time.Sleep(time.Until(stopped.Add(13 * time.Second))) // sub evaluates this period
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.end(t, exitIncomplete)
	if text := s.stderr.String(); !strings.Contains(text, "did not run") && !strings.Contains(text, "fell silent before its end") {
		t.Errorf("sub printed %q, want that it did not run or that the publisher was lost", text)
	}
}
