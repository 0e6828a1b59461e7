package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// These tests run fanfare as processes that communicate by multicast on loopback.

// buildBinary builds the program, once.
var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fanfare-test-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "fanfare.exe")
	out, err := exec.Command("go", "build", "-o", path, "../..").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var built string // directory to remove

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		// A bench in the test's process would start this test binary as its workers, which would run
		// tests and start others.
		fmt.Fprintln(os.Stderr, "a test cannot be a worker: use spawn to run a bench")
		os.Exit(exitUsage)
	}
	sockets, err := os.MkdirTemp("", "fanfare-sockets-")
	if err != nil {
		panic(err)
	}
	os.Setenv(inspect.Variable, sockets) // processes of the host do not see these sockets, nor the reverse
	code := testenv.RunParallel(m)
	os.RemoveAll(sockets)
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// loopbackURL is a fabric on loopback that no other test uses.
func loopbackURL(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("udp://239.20.0.0/16?iface=127.0.0.1&port=%d", testenv.Port(t))
}

// programOnly is for tests that only run the program. They are skipped with -short, as under the
// race detector: the program is built without it, so the detector would check nothing.
func programOnly(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs only processes built without the race detector: skipped with -short")
	}
}

// process is a running fanfare.
type process struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr syncBuffer
	waited         chan struct{}
}

// spawn starts fanfare. Its standard input is open until the test closes it.
func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(testContext(t), path, args...), waited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.waited)
		p.cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

// kill sends SIGKILL and waits for the process to end.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.waited
}

func (p *process) end(t *testing.T, code int) {
	t.Helper()
	<-p.waited
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("fanfare %v: exit code %d, want %d; standard error:\n%s", p.cmd.Args[1:], got, code, p.stderr.String())
	}
}

// feed is a stream of real market data, or of similar synthetic data.
func feed(t testing.TB) []byte {
	name := "../../../../examples/marketdata/itch/testdata/12302019_SNIPPET.NASDAQ_ITCH50"
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		text, _ := records(t, 1000)
		return []byte(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// split splits a stream in framing itch.
func split(t testing.TB, stream []byte) (msgs [][]byte) {
	for len(stream) > 0 {
		n := 2 + int(binary.BigEndian.Uint16(stream))
		if n > len(stream) {
			t.Fatal("the stream ends inside a message")
		}
		msgs = append(msgs, stream[2:n])
		stream = stream[n:]
	}
	return msgs
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// equal compares like cmp(1).
func equal(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on", what, len(got), len(want), i)
}

// repeats is how often the feed is published: a million messages in total, fewer with -short.
func repeats() int {
	if testing.Short() {
		return 50
	}
	return 1000
}
