package main

import (
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

// childArg as only argument makes this program run a role instead of the whole example.
const childArg = "child"

// stopGrace is how long a child may take to end after it is asked to, before it is killed.
const stopGrace = 2 * time.Second

// starter runs a role and sends its events until the last one; it returns
// when the role has ended. The error says that it ended without a last event.
type starter func(ctx context.Context, j job, events chan<- tagged) error

// tagged is an event and the role that it came from.
type tagged struct {
	job job
	event
}

// runProcess is the starter that runs a role as a process of its own: this program again.
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
		stdin.Close() // ends the child: its output is no longer read
	}
	waitErr := cmd.Wait()
	if errors.Is(readErr, errSilent) && waitErr != nil {
		return fmt.Errorf("process ended early: %w", waitErr)
	}
	return errors.Join(readErr, waitErr)
}

// errSilent says that a child's output has ended before its last event.
var errSilent = errors.New("ended without a last event")

// forward sends on what a child writes, until its last event.
func forward(ctx context.Context, j job, stdout io.Reader, events chan<- tagged) error {
	for in := json.NewDecoder(stdout); ; {
		e := tagged{job: j}
		if err := in.Decode(&e.event); err == io.EOF {
			return errSilent
		} else if err != nil {
			return err
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
		if e.Kind == kindDone || e.Kind == kindFailed {
			return nil
		}
	}
}

// runChild is the main function of a child process.
func runChild(stdin io.Reader, stdout, stderr io.Writer) int {
	// An interrupt from the terminal goes to all processes; the parent is the one to stop the others.
	signal.Ignore(os.Interrupt)
	var j job
	if err := json.NewDecoder(stdin).Decode(&j); err != nil {
		fmt.Fprintf(stderr, "marketdata: this is how the program starts its own subscribers, not you: %v\n", err)
		return exitUsage
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// This goroutine ends with the input, at the latest with the process.
	go func() {
		io.Copy(io.Discard, stdin)
		cancel()
	}()
	out := json.NewEncoder(stdout)
	if err := runJob(ctx, j, func(e event) error { return out.Encode(e) }); err != nil {
		return exitRun
	}
	return exitOK
}

// runJob runs a role. It emits what happens, at the end a last event.
func runJob(ctx context.Context, j job, emit func(event) error) error {
	role := runSubscriber
	if j.Subscriber == 0 {
		role = runPublisher
	}
	if err := role(ctx, j, emit); err != nil {
		return errors.Join(err, emit(event{Kind: kindFailed, Error: oneLine(err)}))
	}
	return nil
}
