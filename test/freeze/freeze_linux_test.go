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
	forVar  = "FANFARE_FREEZE" // for how long: 120s
	roleVar = "FANFARE_TEST_ROLE"
	urlVar  = "FANFARE_TEST_URL"

	topic    = "frozen"
	subs     = 2
	messages = 20_000
	patient  = 60 * time.Second
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

// publish publishes messages for some seconds, and waits until all subscribers have them.
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

// subscribe receives all messages, in order and without a gap.
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
			return fmt.Errorf("message %d came, %d was next", n, next)
		}
		if next++; next == messages {
			break
		}
	}
	return bus.Close()
}

type process struct {
	*exec.Cmd
	role string
	mu   sync.Mutex
	said bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
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

// Processes that are stopped and go on have everything, and nobody is told of what is not so: that a publisher was lost, a
// subscriber fell silent, or held somebody up. docs/protocol §11.3.
func TestFrozen(t *testing.T) {
	if os.Getenv(forVar) == "" {
		t.Skipf("%s does not say for how long: test/sim does the same in virtual time", forVar)
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
		may       []string // be told, beside what is so
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
				if time.Since(begun) > patient || strings.Contains(all[0].text(), "over:") {
					t.Fatalf("the publisher does not begin: %s", all[0].text())
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
			may := append([]string{"stood still", "publisher up", "publisher ended", "subscriber up", "subscriber left"}, c.may...)
			for _, p := range all {
				kill := time.AfterFunc(patient, func() { p.Process.Kill() })
				p.Wait()
				kill.Stop()
				if !strings.Contains(p.text(), "over: <nil>") {
					t.Errorf("%s: %s", p.role, p.text())
				}
				for line := range strings.Lines(p.text()) {
					if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "event: "); ok && !slices.Contains(may, kind) {
						t.Errorf("%s is told: %s", p.role, kind)
					}
				}
				if slices.Contains(c.frozen, p.role) != strings.Contains(p.text(), "stood still") {
					t.Errorf("%s: frozen, or not, and says: %s", p.role, p.text())
				}
			}
		})
	}
}
