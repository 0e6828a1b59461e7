package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// childArg as only argument makes this program run a role instead of the whole
// example.
const childArg = "child"

// stopGrace is how long a child may take to end once it was told to, before it
// is killed.
const stopGrace = 2 * time.Second

// starter runs a role and sends its events until the last one; it returns
// when the role has ended. The error says that it ended without a last event.
type starter func(ctx context.Context, j job, events chan<- tagged) error

// tagged is an event and the role that it came from.
type tagged struct {
	job job
	event
}

// last reports whether a role that has sent e will send nothing more.
func (e event) last() bool { return e.Kind == kindDone || e.Kind == kindFailed }

// name is what a role is called in messages to the user.
func (j job) name() string {
	if j.Role == roleSubscriber {
		return fmt.Sprintf("subscriber %d", j.Index)
	}
	return j.Role
}

// runGoroutine is the starter that runs a role in this process.
func runGoroutine(ctx context.Context, j job, events chan<- tagged) error {
	return runJob(ctx, j, func(e event) error {
		select {
		case events <- tagged{j, e}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// runProcess is the starter that runs a role as a process of its own: this
// program again.
func runProcess(ctx context.Context, j job, events chan<- tagged) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, childArg)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The end of its input stops a child, whether we close it or die.
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = stopGrace
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := json.NewEncoder(stdin).Encode(j)
	if readErr == nil {
		readErr = forward(ctx, j, stdout, events)
	}
	if readErr != nil {
		stdin.Close() // a child that talks nonsense, or to nobody, must not go on
	}
	waitErr := cmd.Wait()
	if errors.Is(readErr, errSilent) && waitErr != nil {
		return fmt.Errorf("process ended early: %w", waitErr)
	}
	return errors.Join(readErr, waitErr)
}

// errSilent says that a child's output has ended before its last event.
var errSilent = errors.New("ended without a word")

// forward sends on what a child writes, until its last event.
func forward(ctx context.Context, j job, stdout io.Reader, events chan<- tagged) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := tagged{job: j}
		if err := json.Unmarshal(lines.Bytes(), &e.event); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
		if e.last() {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errSilent
}

// runChild is the main function of a child process.
func runChild(stdin io.Reader, stdout, stderr io.Writer) int {
	// An interrupt from the terminal goes to all processes; the parent is the
	// one to stop the others.
	signal.Ignore(os.Interrupt)
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	var j job
	if err == nil {
		err = json.Unmarshal(line, &j)
	}
	if err != nil {
		fmt.Fprintf(stderr, "marketdata: this is how the program starts its own subscribers, not you: %v\n", err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// This goroutine ends with the input, at the latest with the process.
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	out := json.NewEncoder(stdout)
	if err := runJob(ctx, j, func(e event) error { return out.Encode(e) }); err != nil {
		return 1
	}
	return 0
}

// runJob runs a role. It emits what happens, at the end a last event.
func runJob(ctx context.Context, j job, emit func(event) error) error {
	var err error
	switch j.Role {
	case rolePublisher:
		err = runPublisher(ctx, j, emit)
	case roleSubscriber:
		err = runSubscriber(ctx, j, emit)
	default:
		err = fmt.Errorf("no role %q", j.Role)
	}
	if err != nil {
		return errors.Join(err, emit(event{Kind: kindFailed, Error: oneLine(err)}))
	}
	return nil
}
