package main

import (
	"bufio"
	"cmp"
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

// zmqPeer is ZeroMQ over multicast, in C: libzmq's epgm, which is OpenPGM over UDP. The program is
// compiled when needed. (libzmq also supports NORM, but uses it in a way that passes only a few
// thousand messages a second, which says nothing about NORM.)
type zmqPeer struct{}

//go:embed zmq/zmq.c
var zmqSource string

// zmqProgram is the environment variable with the path of the program, for workers.
const zmqProgram = "FANFARE_BENCH_ZMQ"

// buildZMQ compiles the program into dir, for workers. Its error names what is missing.
func buildZMQ(ctx context.Context, dir string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return errors.New("no C compiler: on Debian, apt install gcc libc6-dev")
	}
	src, exe := filepath.Join(dir, "zmq.c"), filepath.Join(dir, "zmq")
	if err := os.WriteFile(src, []byte(zmqSource), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, cc, "-O2", "-Wall", "-o", exe, src, "-lzmq").CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "zmq.h") || strings.Contains(string(out), "-lzmq") {
			return errors.New("libzmq is not installed: on Debian, apt install libzmq3-dev")
		}
		return fmt.Errorf("compile zmq.c: %w: %s", err, out)
	}
	return os.Setenv(zmqProgram, exe)
}

// Publish implements worker.Contender.
func (zmqPeer) Publish(ctx context.Context, r *worker.Run) error { return runZMQ(ctx, r, "pub") }

// Subscribe implements worker.Contender.
func (zmqPeer) Subscribe(ctx context.Context, r *worker.Run) error { return runZMQ(ctx, r, "sub") }

// runZMQ runs the program for one side.
func runZMQ(ctx context.Context, r *worker.Run, role string) error {
	rate := 0.0
	if r.Spec.Load == worker.LoadPaced {
		rate = r.Spec.Rate
	}
	_, local, err := contenders.Interface(r.Spec.Interface)
	if err != nil {
		return err
	}
	// OpenPGM accepts the loopback interface only by its address.
	cmd := exec.CommandContext(ctx, os.Getenv(zmqProgram), role, fmt.Sprintf("epgm://%s;%s", local, r.Spec.Address),
		strconv.Itoa(r.Spec.Size), fmt.Sprint(r.Spec.Seconds), fmt.Sprint(rate),
		strconv.Itoa(r.Spec.SendBuf), strconv.Itoa(r.Spec.RecvBuf))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("epgm: %w", err)
	}
	rep, err := readZMQ(r, bufio.NewReader(out), in)
	err = errors.Join(err, cmd.Wait())
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("epgm: %w", err)
	}
	rep.Usage.User, rep.Usage.System = cmd.ProcessState.UserTime().Seconds(), cmd.ProcessState.SystemTime().Seconds()
	r.Foreign(rep)
	return nil
}

// readZMQ reads the program's output. in is its standard input.
func readZMQ(r *worker.Run, lines *bufio.Reader, in io.Writer) (rep *worker.Report, err error) {
	for line := ""; line != "ready\n"; { // OpenPGM prints its own warnings to standard output
		if line, err = lines.ReadString('\n'); err != nil {
			return rep, errors.New("the C program ended before it was ready")
		}
	}
	r.Ready("")
	go func() { // ends with the process
		<-r.Stopped()
		io.WriteString(in, "stop\n")
	}()
	rep = new(worker.Report)
	if _, err := fmt.Fscanf(lines, "result %d %d %d %d %d %d %d\n", &rep.Messages, &rep.Lost, &rep.Gaps, &rep.Bad, &rep.Start, &rep.End, &rep.Timed); err != nil {
		return rep, fmt.Errorf("parsing the results: %w", err)
	}
	if rep.Bad > 0 {
		rep.Fault = "the C program does not report which"
	}
	if r.Spec.Load != worker.LoadPaced {
		return rep, nil
	}
	var late []int64
	for {
		var ns int64
		if _, err := fmt.Fscanln(lines, &ns); errors.Is(err, io.EOF) {
			rep.Latency = worker.Latencies(late)
			return rep, nil
		} else if err != nil {
			return rep, fmt.Errorf("parsing the latencies: %w", err)
		}
		late = append(late, ns)
	}
}
