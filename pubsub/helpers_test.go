package pubsub

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// testTimeout bounds tests that would otherwise hang; it is long enough for a host that is ten times too busy.
const testTimeout = 5 * time.Minute

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// fewer is n, or a quarter of it with -short, as under the race detector: messages are much slower there, and races
// show with the first thousand.
func fewer(n int) int {
	if testing.Short() {
		return max(n/4, 1)
	}
	return n
}

// fabrics are the fabrics of eachFabric. TestSimSuite replaces them for its duration.
var fabrics = []testFabric{{"mem", memURL}, {"udp", udpURL}, {"shm", shmURL}, {"sim", simURL}, {"roce", roceURL}}

// testFabric returns a unique URL for each test.
type testFabric struct {
	name string
	url  func(t testing.TB) string
}

// eachFabric runs a test in process, over UDP multicast and RoCEv2 on loopback, over shared memory and over a
// simulated InfiniBand subnet, each on a separate fabric, in parallel. With -short, as under the race detector, it
// leaves out shared memory, because the race detector does not see mapped memory (docs/testing.md), and RoCEv2,
// because tests of transport/rocenet cover it.
func eachFabric(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	eachFabricInTurn(t, func(t *testing.T, url string) {
		t.Parallel()
		f(t, url)
	})
}

// eachFabricInTurn is eachFabric without parallelism, for tests of what the whole process shares: goroutines and
// allocations.
func eachFabricInTurn(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	for _, fabric := range fabrics {
		if testing.Short() && (fabric.name == "shm" || fabric.name == "roce") {
			continue
		}
		t.Run(fabric.name, func(t *testing.T) { f(t, fabric.url(t)) })
	}
}

func simURL(t testing.TB) string { return "sim" + strings.TrimPrefix(memURL(t), "mem") }

func memURL(t testing.TB) string {
	return "mem://" + strings.NewReplacer("/", "_", "#", "_").Replace(t.Name())
}

// shmURL has a name that is unique among tests of all processes.
func shmURL(t testing.TB) string {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory needs Linux")
	}
	return fmt.Sprintf("shm://pubsub-%d-%08x", os.Getpid(), crc32.ChecksumIEEE([]byte(t.Name())))
}

// udpURL has a port that no other test uses. On systems other than Linux it skips the test, even if skipping is
// forbidden: multicast on their loopback interface is not reliable.
func udpURL(t testing.TB) string {
	if runtime.GOOS != "linux" {
		t.Skip("multicast on the loopback interface needs Linux")
	}
	return fmt.Sprintf("udp://239.20.0.0/16?iface=lo&port=%d", testenv.Port(t))
}

// roceURL has groups that no other test uses, derived from a port number.
func roceURL(t testing.TB) string {
	if runtime.GOOS != "linux" {
		t.Skip("RoCEv2 in user space needs Linux")
	}
	port := testenv.Port(t)
	return fmt.Sprintf("roce://lo/239.%d.%d.0/24", port>>8, port&0xff)
}

// atClose, if not nil, is called with the statistics of each bus of openBus when its test ends. TestSimSuite sets it
// for its duration.
var atClose func(stats.Bus)

// quiet discards log lines that a test provokes on purpose.
var quiet = slog.New(slog.DiscardHandler)

// openBus opens a bus with long timeouts, unless c sets others: on a busy host repairs and statuses may be late,
// which most tests do not check.
func openBus(t testing.TB, c Config, url string) *Bus {
	t.Helper()
	if c.RecoveryDeadline == 0 {
		c.RecoveryDeadline = time.Minute
	}
	if c.Silence == 0 {
		c.Silence = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = quiet
	}
	b, err := c.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if atClose != nil {
			atClose(b.Stats())
		}
		b.Close()
	})
	return b
}

func publisher(t testing.TB, b *Bus, topic string) *Publisher {
	t.Helper()
	p, err := b.Publisher(topic)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func subscribe(t testing.TB, b *Bus, topic string, o ...SubscribeOption) *Subscription {
	t.Helper()
	s, err := b.Subscribe(topic, o...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func publish(t testing.TB, ctx context.Context, p *Publisher, msg string) {
	t.Helper()
	if err := p.Publish(ctx, []byte(msg)); err != nil {
		t.Fatal(err)
	}
}

func wait(t testing.TB, ctx context.Context, p interface {
	WaitSubscribers(context.Context, int) error
}, n int) {
	t.Helper()
	if err := p.WaitSubscribers(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// waitJoined waits until all subscribers of p have received their beginning (From): before that flow control does not
// wait for them, and they may miss messages that leave the window.
func waitJoined(t testing.TB, ctx context.Context, p *Publisher) {
	t.Helper()
	for slices.ContainsFunc(p.Receivers(), func(r stats.Subscriber) bool { return r.Joining }) {
		if err := ctx.Err(); err != nil {
			t.Fatalf("subscribers %+v, want none that is joining", p.Receivers())
		}
		time.Sleep(time.Millisecond)
	}
}

// want reads the next message and compares it.
func want(t testing.TB, ctx context.Context, s *Subscription, text string) Message {
	t.Helper()
	m, err := s.Next(ctx)
	if err != nil {
		t.Fatalf("want message %q, got error %v", text, err)
	}
	if string(m.Data) != text {
		t.Fatalf("want message %q, got %q", text, m.Data)
	}
	return m
}

// sameGroup returns n topics that map to one group.
func sameGroup(b *Bus, n int) []string {
	var topics []string
	for i := 0; len(topics) < n; i++ {
		name := fmt.Sprintf("topic.%d", i)
		if len(topics) == 0 || b.Group(name) == b.Group(topics[0]) {
			topics = append(topics, name)
		}
	}
	return topics
}

// inGroupOf returns another topic that maps to the group of topic.
func inGroupOf(b *Bus, topic string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("other.%d", i); b.Group(name) == b.Group(topic) {
			return name
		}
	}
}

// dialGroup returns a socket on loopback that sends to a group's address.
func dialGroup(t testing.TB, group string) *net.UDPConn {
	t.Helper()
	addr, err := netip.ParseAddrPort(group)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// logLines collects a log.
type logLines struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logLines) count(text string) int { return strings.Count(l.String(), text) }

func TestMain(m *testing.M) { os.Exit(testenv.RunParallel(m)) }
