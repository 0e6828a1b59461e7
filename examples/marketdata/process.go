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

// childArg as the only argument makes this program run a role instead of the whole example.
const childArg = "child"

// stopGrace is how long a child may take to end after a request, before it is killed.
const stopGrace = 2 * time.Second

// starter runs a role and sends its events until the last one; it returns when the role has ended.
// It returns an error if the role ended without a last event.
type starter func(ctx context.Context, j job, events chan<- tagged) error

// tagged is an event with the role that it came from.
type tagged struct {
	job job
	event
}

// runProcess is a starter that runs a role in a process: this program again.
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
	// The end of its input stops a child, also if the parent dies.
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

// errSilent: the output of a child ended before its last event.
var errSilent = errors.New("ended without a last event")

// forward forwards the events of a child until its last one.
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
	// A terminal sends interrupts to all processes; the parent stops the others.
	signal.Ignore(os.Interrupt)
	var j job
	if err := json.NewDecoder(stdin).Decode(&j); err != nil {
		fmt.Fprintf(stderr, "marketdata: this argument is only for starting its own subscribers: %v\n", err)
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

// runJob runs a role. It emits events, and at the end a last one.
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
