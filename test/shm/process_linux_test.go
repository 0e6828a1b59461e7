package shm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Environment variables of the processes that are killed and stopped.
const (
	roleVar = "FANFARE_TEST_ROLE"
	urlVar  = "FANFARE_TEST_URL"
)

const (
	topic       = "killed"
	waitTimeout = 60 * time.Second // limit of waits, on a busy machine
	window      = 256 << 10        // bytes of a publisher's window, small so that it is soon overwritten
)

// config is the configuration of all buses.
var config = pubsub.Config{Silence: 200 * time.Millisecond, WindowBytes: window, PublishMemoryBytes: 8 << 20, Logger: slog.New(slog.DiscardHandler)}

// roles are the tasks of a process until it is killed.
var roles = map[string]func(url string) error{
	"pub":    func(url string) error { return publish(url, pubsub.FlowMin) },
	"race":   func(url string) error { return publish(url, pubsub.FlowNone) }, // no flow control
	"sub":    func(url string) error { return subscribe(url, read) },
	"handle": func(url string) error { return subscribe(url, handle) },
	"calls":  callMany,
}

func TestMain(m *testing.M) {
	if file := os.Getenv(countVar); file != "" {
		os.Exit(countCalls(file))
	}
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(worker.Main(context.Background(), os.Stdin, os.Stdout, contenders.All()))
	}
	if role := roles[os.Getenv(roleVar)]; role != nil {
		fmt.Println(role(os.Getenv(urlVar)))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func publish(url string, flow pubsub.FlowControl) error {
	c := config
	c.FlowControl = flow
	bus, err := c.Open(context.Background(), url)
	if err != nil {
		return err
	}
	return publishUntil(context.Background(), bus, rand.New(rand.NewPCG(uint64(os.Getpid()), 1)))
}

// publishUntil publishes messages until the context is done. It pauses to leave time for others:
// flow control might not slow it down.
func publishUntil(ctx context.Context, bus *pubsub.Bus, rng *rand.Rand) error {
	pub, err := bus.Publisher(topic)
	if err != nil {
		return err
	}
	msg, trip := make([]byte, 20_000), time.Duration(0)
	for n := uint64(0); ctx.Err() == nil; n++ {
		if n%128 == 0 {
			for _, p := range bus.Stats().Publications {
				trip = p.RTT
			}
			time.Sleep(time.Millisecond)
		}
		if err := pub.Publish(ctx, makeMessage(rng, msg, n, trip)); err != nil {
			return err
		}
	}
	return nil
}

func subscribe(url string, receive func(context.Context, *pubsub.Bus, *checker) error) error {
	bus, err := config.Open(context.Background(), url)
	if err != nil {
		return err
	}
	return receive(context.Background(), bus, newChecker())
}

// read reads with a cursor, which copies messages.
func read(ctx context.Context, bus *pubsub.Bus, c *checker) error {
	sub, err := bus.Subscribe(topic)
	if err != nil {
		return err
	}
	for m, err := range sub.Messages(ctx) {
		var gap *pubsub.GapError
		if errors.As(err, &gap) {
			err = c.gap(gap)
		} else if err == nil {
			err = c.message(&m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handle reads messages in place, and each a second time, sometimes after a pause. It prints a line
// when it is first overtaken.
func handle(ctx context.Context, bus *pubsub.Bus, c *checker) error {
	failed := make(chan error, 1)
	n := 0
	_, err := bus.Handle(topic, func(m pubsub.Message, err error) {
		var gap *pubsub.GapError
		if errors.As(err, &gap) {
			if _, gaps, _ := c.totals(); gaps == 0 {
				fmt.Println(overtaken)
			}
			err = c.gap(gap)
		} else if err == nil {
			err = c.message(&m)
			if n++; n%500 == 0 {
				time.Sleep(time.Millisecond)
			}
			if err == nil && !intact(m.Data) {
				err = fmt.Errorf("a message of %d bytes changed while it was read", len(m.Data))
			}
		}
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

const overtaken = "overtaken"

// process is a process to be killed.
type process struct {
	role   string
	cmd    *exec.Cmd
	output *bytesBuffer
}

type bytesBuffer struct {
	mu  sync.Mutex
	all []byte
}

func (b *bytesBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, p...)
	return len(p), nil
}

func (b *bytesBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.all)
}

func start(t *testing.T, role, url string) *process {
	t.Helper()
	p := &process{role: role, cmd: exec.Command(os.Args[0]), output: new(bytesBuffer)}
	p.cmd.Env = append(os.Environ(), roleVar+"="+role, urlVar+"="+url, "FANFARE_INSPECT=off", "GOMAXPROCS=2")
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it also ends if the test panics
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) pid() int                  { return p.cmd.Process.Pid }
func (p *process) publishes() bool           { return p.role == "pub" || p.role == "race" }
func (p *process) end()                      { p.cmd.Process.Kill(); p.cmd.Wait() }
func (p *process) signal(sig syscall.Signal) { p.cmd.Process.Signal(sig) }

// killed waits until the process has died of the signal sent by kill. It is a failure if it had ended by itself.
func (p *process) killed(t *testing.T) {
	t.Helper()
	p.cmd.Wait()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("a %s ended with %v, want killed by SIGKILL\n%s", p.role, p.cmd.ProcessState, p.output)
	}
}

// seeded returns the random source of a test, with FANFARE_SEED if set.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(52)
	if text := os.Getenv("FANFARE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FANFARE_SEED is no number: %v", err)
		}
	}
	t.Logf("FANFARE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 28))
}

// scratch returns a directory for fabrics.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fanfare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// files returns everything below a directory.
func files(dir string) (all []string) {
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir {
			all = append(all, path)
		}
		return nil
	})
	return all
}
