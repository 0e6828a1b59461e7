package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"runtime"
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
	Dropped   int // packets lost on purpose
}

// process is a running Python program.
type process struct {
	t      *testing.T
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
	path, err := exec.LookPath("python3")
	if err != nil {
		testenv.Skip(t, "no python3: %v", err)
	}
	return path
}

// start runs one of the programs, and ends it with the test.
func start(t *testing.T, ctx context.Context, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, lines: make(chan line, 1024), ctx: ctx}
	p.cmd = exec.Command(python3(t), append([]string{"-B", program}, args...)...)
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
		_ = p.cmd.Process.Kill()
		for range p.lines {
		}
		<-read
		_ = p.cmd.Wait()
		if t.Failed() || p.stderr.Len() > 0 {
			t.Logf("%s %q: standard error:\n%s", program, args, p.stderr.String())
		}
	})
	return p
}

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
		p.t.Fatalf("%v: nothing more came: %v", p.cmd.Args, p.ctx.Err())
		return
	}
}

// until returns the next line that is wanted; what comes before goes to others.
func (p *process) until(wanted func(line) bool, others func(line)) line {
	p.t.Helper()
	for {
		l, ok := p.next()
		if !ok {
			p.t.Fatalf("%v: ended before what was waited for", p.cmd.Args)
		}
		if wanted(l) {
			return l
		}
		if others != nil {
			others(l)
		}
	}
}

func ofType(kind string) func(line) bool { return func(l line) bool { return l.Type == kind } }

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
