package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// line is an output line of sub.py or pub.py, a JSON object.
type line struct {
	Type      string
	Topic     string
	Number    uint64
	Publisher string
	Epoch     uint64
	Data      []byte
	Event     string
	Name      string
	First     uint64
	Count     uint64
	Seed      uint64
	Counters  map[string]int
	Dropped   int   // packets lost by faults
	Mine      []int // number of groups, mapping and its parameter
	Theirs    []int
}

// process is a publisher or subscriber in a process of its own.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan line
	stderr bytes.Buffer
	ctx    context.Context
}

// python3 returns the interpreter, or skips the test.
func python3(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("multicast on the loopback interface needs Linux")
	}
	path, err := interpreter()
	if err != nil {
		testenv.Skip(t, "no python3: %v", err)
	}
	return path
}

// interpreter is the path of the executable: python3 in PATH may be a script that searches it,
// which takes much longer than starting it.
var interpreter = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(path)), err
})

// python runs one of the programs, and ends it with the test.
func python(t *testing.T, ctx context.Context, program string, args ...string) *process {
	t.Helper()
	return start(t, ctx, exec.Command(python3(t), append([]string{"-B", program}, args...)...))
}

func start(t *testing.T, ctx context.Context, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: strings.Join(cmd.Args, " "), cmd: cmd, lines: make(chan line, 1024), ctx: ctx}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(stdout)
	}()
	t.Cleanup(func() {
		p.kill()
		for range p.lines {
		}
		<-read
		_ = p.cmd.Wait()
		if t.Failed() || p.stderr.Len() > 0 {
			t.Logf("%s: standard error:\n%s", p.name, p.stderr.String())
		}
	})
	return p
}

// kill ends the process at once.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

func (p *process) read(stdout io.Reader) {
	defer close(p.lines)
	scan := bufio.NewScanner(stdout)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			p.t.Errorf("not a line of JSON: %q: %v", scan.Text(), err)
			return
		}
		p.lines <- l
	}
}

// write writes messages to pub.py. It returns early if the program exits.
func (p *process) write(msgs []message) {
	enc := json.NewEncoder(p.stdin)
	for _, m := range msgs {
		if enc.Encode(map[string]any{"topic": m.topic, "data": m.data}) != nil {
			return
		}
	}
}

// next returns the next line; ok is false at the end.
func (p *process) next() (l line, ok bool) {
	p.t.Helper()
	select {
	case l, ok = <-p.lines:
		return l, ok
	case <-p.ctx.Done():
		p.t.Fatalf("%s: no further line: %v", p.name, p.ctx.Err())
		return
	}
}

// until returns the next wanted line, and passes lines before it to others.
func (p *process) until(wanted func(line) bool, others func(line)) line {
	p.t.Helper()
	for {
		l, ok := p.next()
		if !ok {
			p.t.Fatalf("%s: ended before the wanted line", p.name)
		}
		if wanted(l) {
			return l
		}
		if others != nil {
			others(l)
		}
	}
}

// drain passes the available lines to handle.
func (p *process) drain(handle func(line)) {
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				return
			}
			handle(l)
		default:
			return
		}
	}
}

func ofType(kind string) func(line) bool { return func(l line) bool { return l.Type == kind } }

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
