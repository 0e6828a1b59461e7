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

// Process is a worker, from the point of view of the program that started it.
type Process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan message // its messages; closed at the end of its output
	once   sync.Once
	stderr bytes.Buffer // only read after its end

	// Address is the address of a ready worker, if any, and Metrics the addresses where its sides serve metrics.
	Address string
	Metrics []string
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// endGrace is how long a worker may take to end after its report.
const endGrace = 5 * time.Second

// Start starts a worker: the program exe with subcommand Command.
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
		return nil, fmt.Errorf("starting worker: %w", err)
	}
	go p.read(out)
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// read forwards the worker's messages until its output ends.
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

// Ready waits until the worker is ready.
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

// Reports waits for the worker's results.
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
			p.Kill() // waits for all of its output
			return m, fmt.Errorf("%s: ended early; standard error: %s", p.name, strings.TrimSpace(p.stderr.String()))
		case m.Error != "":
			return m, fmt.Errorf("%s: %s", p.name, m.Error)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("%s: %w", p.name, context.Cause(ctx))
	}
}

// Stop notifies the worker that the publisher has ended. An error does not matter: the worker has then ended, too.
func (p *Process) Stop() { io.WriteString(p.stdin, stopLine) }

// Kill ends the worker and waits for its end. It is idempotent.
func (p *Process) Kill() {
	p.once.Do(func() {
		p.stdin.Close() // ends a worker in order
		timer := time.AfterFunc(endGrace, func() { p.cmd.Process.Kill() })
		defer timer.Stop()
		for range p.lines {
		}
		p.cmd.Wait()
	})
}

// Abort kills the worker and waits for its end.
func (p *Process) Abort() {
	p.cmd.Process.Kill()
	p.Kill()
}

// ErrTimeout is the cause of a context when a measurement took too long.
var ErrTimeout = errors.New("no result in time; is another program using the machine or the network?")
