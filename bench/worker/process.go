package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Process is a worker, as seen by the program that started it.
type Process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan message // all that it writes; closed at the end of its output
	once   sync.Once
	stderr bytes.Buffer // to be read when it has ended

	// Address is where a ready worker can be reached, and Metrics where its sides serve metrics, if they do.
	Address string
	Metrics []string
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// endGrace is how long a worker has to end after its report.
const endGrace = 5 * time.Second

// Start starts a worker: the program exe with sub-command Command.
func Start(exe string, spec Spec) (*Process, error) {
	name := fmt.Sprintf("%s %s", spec.Contender, spec.Role)
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	p := &Process{name: name, cmd: exec.Command(exe, Command), lines: make(chan message, 2)}
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = endGrace
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	go p.read(out)
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// read passes the worker's lines on, until its output ends.
func (p *Process) read(out io.Reader) {
	defer close(p.lines)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			m = message{Error: fmt.Sprintf("wrote %q", bytes.TrimSpace(line))}
		}
		p.lines <- m
	}
}

// Ready waits until the worker is.
func (p *Process) Ready(ctx context.Context) error {
	m, err := p.next(ctx)
	if err != nil {
		return err
	}
	if !m.Ready {
		return fmt.Errorf("%s: reported before it was ready", p.name)
	}
	p.Address, p.Metrics = m.Address, m.Metrics
	return nil
}

// Reports waits for what the worker has measured.
func (p *Process) Reports(ctx context.Context) ([]*Report, error) {
	m, err := p.next(ctx)
	if err == nil && m.Ready {
		m, err = p.next(ctx)
	}
	return m.Reports, err
}

func (p *Process) next(ctx context.Context) (message, error) {
	select {
	case m, ok := <-p.lines:
		switch {
		case !ok:
			p.Kill() // which waits for all that it wrote
			return m, fmt.Errorf("%s: ended before its time; it wrote: %s", p.name, strings.TrimSpace(p.stderr.String()))
		case m.Error != "":
			return m, fmt.Errorf("%s: %s", p.name, m.Error)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("%s: %w", p.name, context.Cause(ctx))
	}
}

// Stop reports to the worker that the publisher has ended. A worker that has ended too does not need it.
func (p *Process) Stop() { io.WriteString(p.stdin, stopLine) }

// Kill ends the worker, if it has not ended, and waits until it is gone. It is idempotent.
func (p *Process) Kill() {
	p.once.Do(func() {
		p.stdin.Close() // which ends a worker that is well
		timer := time.AfterFunc(endGrace, func() { p.cmd.Process.Kill() })
		defer timer.Stop()
		for range p.lines {
		}
		p.cmd.Wait()
	})
}

// Abort ends the worker at once, and waits until it is gone.
func (p *Process) Abort() {
	p.cmd.Process.Kill()
	p.Kill()
}

// ErrTimeout is the cause of a context that a measurement took too long for.
var ErrTimeout = errors.New("no result in time; is something else using the machine, or the network?")
