package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Variables of the environment of the processes that are killed, and of how many are.
const (
	roleVar  = "FANFARE_TEST_ROLE" // pub or sub
	urlVar   = "FANFARE_TEST_URL"
	killsVar = "FANFARE_KILLS"
)

const (
	topic   = "killed"
	patient = 60 * time.Second // for what must come, on a machine that is busy with other things
)

func TestMain(m *testing.M) {
	switch url := os.Getenv(urlVar); os.Getenv(roleVar) {
	case "pub":
		exit(publish(url))
	case "sub":
		exit(subscribe(url, newChecker()))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	fmt.Println(err)
	os.Exit(3)
}

var config = pubsub.Config{Silence: 200 * time.Millisecond, PublishMemoryBytes: 8 << 20}

// publish publishes messages of many sizes, each with its number and a checksum.
func publish(url string) error {
	bus, err := config.Open(context.Background(), url)
	if err != nil {
		return err
	}
	pub, err := bus.Publisher(topic)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	msg := make([]byte, 20_000)
	for n := uint64(1); ; n++ {
		size := 16 + rng.IntN(100)
		if n%50 == 0 {
			size = 16 + rng.IntN(len(msg)-16)
		}
		m := msg[:size]
		binary.LittleEndian.PutUint64(m[4:], n)
		for i := 12; i < size; i++ {
			m[i] = byte(n) + byte(i)
		}
		binary.LittleEndian.PutUint32(m, crc32.ChecksumIEEE(m[4:]))
		if err := pub.Publish(context.Background(), m); err != nil {
			return err
		}
	}
}

// checker finds messages that are torn or out of order. It is for one subscription.
type checker struct {
	mu   sync.Mutex
	last map[string]uint64 // under mu: number of the last message of a publisher
	came uint64            // under mu: messages
}

func newChecker() *checker { return &checker{last: make(map[string]uint64)} }

func (c *checker) message(m *pubsub.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := m.Data
	if len(d) < 12 || crc32.ChecksumIEEE(d[4:]) != binary.LittleEndian.Uint32(d) {
		return fmt.Errorf("a torn message of %d bytes", len(d))
	}
	n, from := binary.LittleEndian.Uint64(d[4:]), fmt.Sprint(m.Publisher(), m.Epoch())
	if n <= c.last[from] {
		return fmt.Errorf("message %d behind %d", n, c.last[from])
	}
	c.last[from] = n
	c.came++
	return nil
}

// progress is how many messages have come, and of which publishers.
func (c *checker) progress() (messages uint64, publishers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came, len(c.last)
}

func subscribe(url string, c *checker) error {
	bus, err := config.Open(context.Background(), url)
	if err != nil {
		return err
	}
	return read(context.Background(), bus, c)
}

func read(ctx context.Context, bus *pubsub.Bus, c *checker) error {
	sub, err := bus.Subscribe(topic)
	if err != nil {
		return err
	}
	for m, err := range sub.Messages(ctx) {
		var gap *pubsub.GapError
		if errors.As(err, &gap) {
			continue // a publisher was killed, or one did not read in time
		}
		if err == nil {
			err = c.message(&m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// process is one that will be killed.
type process struct {
	role string
	cmd  *exec.Cmd
	said *bytesBuffer
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

func start(t *testing.T, role, url string) *process {
	t.Helper()
	p := &process{role: role, cmd: exec.Command(os.Args[0]), said: new(bytesBuffer)}
	p.cmd.Env = append(os.Environ(), roleVar+"="+role, urlVar+"="+url, "FANFARE_INSPECT=off", "GOMAXPROCS=2")
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// kill kills it. That it had ended by itself is a failure.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGKILL)
	p.cmd.Wait()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("a %s ended by itself: %v\n%s", p.role, p.cmd.ProcessState, p.said.all)
	}
}

// Publishers and subscribers are killed at any moment. Nobody gets a torn message, those that
// live go on, and the next that starts removes what is left. docs/protocol.md §28.6, §28.8.
func TestKilled(t *testing.T) {
	kills := 6
	if text := os.Getenv(killsVar); text != "" {
		kills, _ = strconv.Atoi(text)
	}
	dir := scratch(t)
	url := "shm://kills?dir=" + dir
	bus, err := config.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- read(ctx, bus, c) }()

	rng := rand.New(rand.NewPCG(52, uint64(kills)))
	var all []*process
	for _, role := range []string{"pub", "pub", "sub", "sub"} {
		all = append(all, start(t, role, url))
	}
	defer func() {
		for _, p := range all {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	}()
	longest := time.Duration(0)
	goesOn := func() {
		t.Helper()
		began := time.Now()
		for before, _ := c.progress(); ; time.Sleep(time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("the subscriber that is not killed: %v", err)
			default:
			}
			if now, _ := c.progress(); now > before+100 {
				break
			}
			if time.Since(began) > patient {
				t.Fatal("nothing is delivered any more")
			}
		}
		longest = max(longest, time.Since(began))
	}
	goesOn()
	for range kills {
		time.Sleep(time.Duration(rng.IntN(30_000)) * time.Microsecond) // what is killed may have just begun
		i := rng.IntN(len(all))
		role := all[i].role
		all[i].kill(t)
		goesOn()
		all[i] = start(t, role, url)
	}
	for _, p := range all {
		p.kill(t)
	}
	stop()
	<-ended
	all = nil
	bus.Close()
	messages, publishers := c.progress()
	t.Logf("%d killed; %d messages of %d publishers, all whole and in order; the longest wait for a hundred more was %v", kills, messages, publishers, longest)
	next, err := pubsub.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	if left := files(dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// scratch is a directory for fabrics.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fanfare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// files is everything below a directory.
func files(dir string) (all []string) {
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir {
			all = append(all, path)
		}
		return nil
	})
	return all
}
