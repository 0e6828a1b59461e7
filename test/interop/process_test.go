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

// line is what sub.py and pub.py write: one JSON object a line.
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
	Dropped   int   // packets lost on purpose
	Mine      []int // number of groups, mapping and its parameter
	Theirs    []int
}

// process is a running publisher or subscriber that is not part of the test's own.
type process struct {
	t      *testing.T
	what   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan line
	stderr bytes.Buffer
	ctx    context.Context
}

// python3 is the interpreter, without which nothing here can run.
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

// interpreter is the program itself: the python3 of PATH may be a script that looks for it, which takes
// several times as long as its start.
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
	p := &process{t: t, what: strings.Join(cmd.Args, " "), cmd: cmd, lines: make(chan line, 1024), ctx: ctx}
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
			t.Logf("%s: standard error:\n%s", p.what, p.stderr.String())
		}
	})
	return p
}

// kill ends the process without a chance to say so.
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

// write gives messages to pub.py. It ends early when the program does.
func (p *process) write(msgs []message) {
	enc := json.NewEncoder(p.stdin)
	for _, m := range msgs {
		if enc.Encode(map[string]any{"topic": m.topic, "data": m.data}) != nil {
			return
		}
	}
}

// next is the next line; ok is false at the end.
func (p *process) next() (l line, ok bool) {
	p.t.Helper()
	select {
	case l, ok = <-p.lines:
		return l, ok
	case <-p.ctx.Done():
		p.t.Fatalf("%s: nothing more came: %v", p.what, p.ctx.Err())
		return
	}
}

// until returns the next line that is wanted; what comes before goes to others.
func (p *process) until(wanted func(line) bool, others func(line)) line {
	p.t.Helper()
	for {
		l, ok := p.next()
		if !ok {
			p.t.Fatalf("%s: ended before what was waited for", p.what)
		}
		if wanted(l) {
			return l
		}
		if others != nil {
			others(l)
		}
	}
}

// drain gives what has come to take.
func (p *process) drain(take func(line)) {
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				return
			}
			take(l)
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
