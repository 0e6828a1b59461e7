package freeze

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

const (
	forVar  = "FANFARE_FREEZE" // duration of the freeze: 120s
	roleVar = "FANFARE_TEST_ROLE"
	urlVar  = "FANFARE_TEST_URL"

	topic       = "frozen"
	subs        = 2
	messages    = 20_000
	waitTimeout = 60 * time.Second
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
		os.Exit(m.Run())
	case "pub", "sub":
		run := map[string]func(context.Context, *pubsub.Bus) error{"pub": publish, "sub": subscribe}[role]
		c := pubsub.Config{Logger: slog.New(slog.DiscardHandler), OnEvent: func(e events.Event) { fmt.Println("event:", e.Kind) }}
		bus, err := c.Open(context.Background(), os.Getenv(urlVar))
		if err == nil {
			err = run(context.Background(), bus)
		}
		fmt.Println("over:", err)
		os.Exit(0)
	}
}

// publish publishes messages for some seconds, and waits until all subscribers have received them.
func publish(ctx context.Context, bus *pubsub.Bus) error {
	pub, err := bus.Publisher(topic)
	if err != nil {
		return err
	}
	if err := pub.WaitSubscribers(ctx, subs); err != nil {
		return err
	}
	fmt.Println("begins")
	for n := range uint64(messages) {
		if n%10 == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := pub.Publish(ctx, binary.BigEndian.AppendUint64(make([]byte, 100), n)); err != nil {
			return err
		}
	}
	return bus.Close()
}

// subscribe receives all messages in order, without gaps.
func subscribe(ctx context.Context, bus *pubsub.Bus) error {
	sub, err := bus.Subscribe(topic)
	if err != nil {
		return err
	}
	next := uint64(0)
	for m, err := range sub.Messages(ctx) {
		if err != nil {
			return err
		}
		if n := binary.BigEndian.Uint64(m.Data[100:]); n != next {
			return fmt.Errorf("got message %d, want %d", n, next)
		}
		if next++; next == messages {
			break
		}
	}
	return bus.Close()
}

type process struct {
	*exec.Cmd
	role   string
	mu     sync.Mutex
	output bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func start(t *testing.T, role, url string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), role: role}
	p.Env = append(os.Environ(), roleVar+"="+role, urlVar+"="+url)
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

// Processes that are stopped and continued lose nothing, and none of them reports anything wrong: a
// lost publisher, or a subscriber that is silent or blocks the publisher. docs/protocol §11.3.
func TestFrozen(t *testing.T) {
	if os.Getenv(forVar) == "" {
		t.Skipf("%s, the duration, is not set: test/sim tests the same in virtual time", forVar)
	}
	stop, err := time.ParseDuration(os.Getenv(forVar))
	if err != nil {
		t.Fatalf("%s: %v", forVar, err)
	}
	shm := func() string {
		dir, err := os.MkdirTemp("/dev/shm", "fanfare-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return "shm://frozen?dir=" + dir
	}
	udp := func() string { return fmt.Sprintf("udp://?iface=lo&groups=1&port=%d", testenv.Port(t)) }
	for _, c := range []struct {
		name, url string
		frozen    []string // roles
		allowed   []string // additional events that may be reported
	}{
		{"all over shared memory", shm(), []string{"pub", "sub"}, nil},
		{"all over UDP", udp(), []string{"pub", "sub"}, nil},
		{"the publisher over shared memory", shm(), []string{"pub"}, []string{"publisher lost"}},
		{"the publisher over UDP", udp(), []string{"pub"}, []string{"publisher lost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := []*process{start(t, "pub", c.url)}
			for range subs {
				all = append(all, start(t, "sub", c.url))
			}
			for begun := time.Now(); !strings.Contains(all[0].text(), "begins"); time.Sleep(10 * time.Millisecond) {
				if time.Since(begun) > waitTimeout || strings.Contains(all[0].text(), "over:") {
					t.Fatalf("the publisher did not begin: %s", all[0].text())
				}
			}
			signal := func(s syscall.Signal) {
				for _, p := range all {
					if slices.Contains(c.frozen, p.role) {
						p.Process.Signal(s)
					}
				}
			}
			time.Sleep(300 * time.Millisecond)
			signal(syscall.SIGSTOP)
			time.Sleep(stop)
			signal(syscall.SIGCONT)
			allowed := append([]string{"stood still", "publisher up", "publisher ended", "subscriber up", "subscriber left"}, c.allowed...)
			for _, p := range all {
				kill := time.AfterFunc(waitTimeout, func() { p.Process.Kill() })
				p.Wait()
				kill.Stop()
				if !strings.Contains(p.text(), "over: <nil>") {
					t.Errorf("%s: %s", p.role, p.text())
				}
				for line := range strings.Lines(p.text()) {
					if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok && !slices.Contains(allowed, kind) {
						t.Errorf("%s reports the event: %s", p.role, kind)
					}
				}
				if slices.Contains(c.frozen, p.role) != strings.Contains(p.text(), "stood still") {
					t.Errorf("%s: wrong report of the freeze: %s", p.role, p.text())
				}
			}
		})
	}
}
