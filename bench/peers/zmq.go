package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// zmqPeer is ZeroMQ over multicast, in C: libzmq's epgm, which is OpenPGM over
// UDP. The program that speaks to it is compiled when it is needed. (libzmq has
// NORM, too, but drives it so that a few thousand messages a second come
// through, which says nothing of NORM.)
type zmqPeer struct{}

//go:embed zmq/zmq.c
var zmqSource string

// zmqProgram is the environment variable that tells workers where the program
// is.
const zmqProgram = "FANFARE_BENCH_ZMQ"

// buildZMQ compiles the program into dir. An error says what is missing.
func buildZMQ(ctx context.Context, dir string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", errors.New("there is no C compiler: on Debian, apt install gcc libc6-dev")
	}
	src, exe := filepath.Join(dir, "zmq.c"), filepath.Join(dir, "zmq")
	if err := os.WriteFile(src, []byte(zmqSource), 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, cc, "-O2", "-Wall", "-o", exe, src, "-lzmq").CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "zmq.h") || strings.Contains(string(out), "-lzmq") {
			return "", errors.New("libzmq is not installed: on Debian, apt install libzmq3-dev")
		}
		return "", fmt.Errorf("compile zmq.c: %w: %s", err, out)
	}
	return exe, nil
}

// start starts the program for one side, and waits until it is ready.
func (zmqPeer) start(ctx context.Context, r *worker.Run, role string) (*exec.Cmd, *bufio.Reader, io.WriteCloser, error) {
	if r.Spec.Load != worker.LoadFull && r.Spec.Load != worker.LoadPaced {
		return nil, nil, nil, errors.New("epgm: only throughput and latency are measured of it")
	}
	rate := 0.0
	if r.Spec.Load == worker.LoadPaced {
		rate = r.Spec.Rate
	}
	local, err := contenders.LocalAddress(r.Spec.Interface)
	if err != nil {
		return nil, nil, nil, err
	}
	// OpenPGM knows the loopback interface by its address alone.
	cmd := exec.CommandContext(ctx, os.Getenv(zmqProgram), role, fmt.Sprintf("epgm://%s;%s", local, r.Spec.Address),
		strconv.Itoa(r.Spec.Size), fmt.Sprint(r.Spec.Seconds), fmt.Sprint(rate), strconv.Itoa(r.Spec.SendBuf), strconv.Itoa(r.Spec.RecvBuf))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, fmt.Errorf("epgm: %w", err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if line == "ready\n" {
			return cmd, lines, in, nil
		}
		// OpenPGM writes warnings of its own to standard output.
		if err != nil {
			return nil, nil, nil, errors.Join(errors.New("epgm: the C program ended before it was ready"), cmd.Wait())
		}
	}
}

// Publish implements worker.Contender.
func (z zmqPeer) Publish(ctx context.Context, r *worker.Run) error {
	cmd, lines, in, err := z.start(ctx, r, "pub")
	if err != nil {
		return err
	}
	r.Ready("")
	return z.finish(ctx, r, cmd, lines, in)
}

// Subscribe implements worker.Contender.
func (z zmqPeer) Subscribe(ctx context.Context, r *worker.Run) error {
	cmd, lines, in, err := z.start(ctx, r, "sub")
	if err != nil {
		return err
	}
	r.Ready("")
	done := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-r.Stopped():
			io.WriteString(in, "stop\n")
		case <-done:
		}
	}()
	err = z.finish(ctx, r, cmd, lines, in)
	close(done)
	<-told
	return err
}

// finish reads the results.
func (zmqPeer) finish(ctx context.Context, r *worker.Run, cmd *exec.Cmd, lines *bufio.Reader, in io.Closer) error {
	var rep worker.Report
	var late []int64
	var ferr error
	if _, err := fmt.Fscanf(lines, "result %d %d %d %d %d %d %d\n", &rep.Messages, &rep.Lost, &rep.Gaps, &rep.Bad, &rep.Start, &rep.End, &rep.Timed); err != nil {
		ferr = fmt.Errorf("epgm: results cannot be read: %w", err)
	}
	for ferr == nil {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			ferr = fmt.Errorf("epgm: latency %q", line)
			break
		}
		late = append(late, ns)
	}
	err := cmd.Wait()
	in.Close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err := errors.Join(err, ferr); err != nil {
		return err
	}
	if rep.Bad > 0 {
		rep.Fault = "the C program does not say which"
	}
	rep.Usage.User, rep.Usage.System = cmd.ProcessState.UserTime().Seconds(), cmd.ProcessState.SystemTime().Seconds()
	if r.Spec.Load == worker.LoadPaced {
		rep.Latency = worker.Latencies(late)
	}
	r.Foreign(rep)
	return nil
}
