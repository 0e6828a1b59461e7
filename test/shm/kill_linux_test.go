package shm

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// killsVar is how many processes are killed, or stopped: FANFARE_KILLS.
const killsVar = "FANFARE_KILLS"

func howMany(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv(killsVar)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", killsVar, err)
	}
	return n
}

// hostClock is time as far as the host lets this process run: it goes on by two of its ticks at
// most from one tick to the next, however late that comes.
type hostClock struct{ ran atomic.Int64 }

const tick = 5 * time.Millisecond

func startClock(t *testing.T) *hostClock {
	c, stop := new(hostClock), make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-ticker.C:
				now := time.Now()
				c.ran.Add(int64(min(now.Sub(last), 2*tick)))
				last = now
			}
		}
	}()
	return c
}

func (c *hostClock) now() time.Duration { return time.Duration(c.ran.Load()) }

// releaseRule is for how long a subscriber that was killed may hold up a publisher that has
// measured this round trip: until it has been asked ten times, not more than 100 ms apart, over
// the time of silence and 30 round trips, and the heartbeat that finds so. docs/protocol.md §5.8, §8.4.
func releaseRule(trip time.Duration) time.Duration {
	const apart, asked = 100 * time.Millisecond, 10
	return max(asked*apart, config.Silence, 30*trip) + apart
}

// onBusyHost is for how many times that long it may hold it up here. The rule is about the time of one process;
// here several share the processors with each other and with other programs, and each has to
// run before a message has come.
const onBusyHost = 3

// killing is a fabric whose processes are killed, and a subscriber that is not.
type killing struct {
	t             *testing.T
	url           string
	rng           *rand.Rand
	clock         *hostClock
	check         *checker
	ended         chan error // of that subscriber
	all           []*process
	longest, rule time.Duration
}

func startKilling(t *testing.T, url string) *killing {
	return &killing{t: t, url: url, rng: seeded(t), clock: startClock(t), check: newChecker(), ended: make(chan error, 1)}
}

// await waits until something has come, and has the host's clock, how long that took.
func (k *killing) await(what string, come func() bool) time.Duration {
	k.t.Helper()
	began, start := k.clock.now(), time.Now()
	for ; !come(); time.Sleep(time.Millisecond) {
		select {
		case err := <-k.ended:
			k.t.Fatalf("the subscriber that is not killed: %v", err)
		default:
		}
		if time.Since(start) > patient {
			k.t.Fatalf("%s: not in %v", what, patient)
		}
	}
	return k.clock.now() - began
}

// heard waits until messages of so many publishers that live have come.
func (k *killing) heard(publishers int) {
	k.t.Helper()
	k.await("a message of a publisher that lives", func() bool {
		n := 0
		for _, p := range k.all {
			if p.publishes() && k.check.heard(p.pid()) {
				n++
			}
		}
		return n >= publishers
	})
}

// strike kills several at a moment. The publishers that were heard by then go on, within the
// release rule: more comes of each than its window holds, all of it published afterwards, so that
// none of those waits for one that is dead.
func (k *killing) strike(kills int) {
	k.t.Helper()
	time.Sleep(time.Duration(k.rng.IntN(30_000)) * time.Microsecond) // what is killed may have just begun
	dead := make(map[int]bool)
	for _, i := range k.rng.Perm(len(k.all))[:kills] {
		dead[i] = true
		k.all[i].signal(syscall.SIGKILL)
	}
	var waited []*process
	for i, p := range k.all {
		if !dead[i] && p.publishes() && k.check.heard(p.pid()) {
			waited = append(waited, p)
			k.check.count(p.pid())
		}
	}
	for i := range dead {
		k.all[i].killed(k.t)
		k.all[i] = start(k.t, k.all[i].role, k.url)
	}
	for _, p := range waited {
		enough := window
		if p.role == "race" {
			enough = 1 // of which much may be lost: it waits for nobody
		}
		took := k.await("more of a publisher that lives", func() bool { n, _ := k.check.counted(p.pid()); return n >= enough })
		_, trip := k.check.counted(p.pid())
		if rule := releaseRule(trip); took > onBusyHost*rule {
			k.t.Errorf("a %s went on after %v; the release rule is %v with its round trip of %v", p.role, took, rule, trip)
		} else if took > k.longest {
			k.longest, k.rule = took, rule
		}
	}
}

// Publishers and subscribers are killed at any moment. Nobody gets a torn message or loses one
// untold, those that live go on within the release rule, and the next that starts removes what is left.
// docs/protocol.md §8.4, §28.6, §28.8.
func TestKilled(t *testing.T) {
	kills := howMany(t, 12)
	dir := scratch(t)
	k := startKilling(t, "shm://kills?dir="+dir)
	bus, err := config.Open(t.Context(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { k.ended <- read(ctx, bus, k.check) }()
	defer func() {
		for _, p := range k.all {
			p.end()
		}
	}()
	for _, role := range []string{"pub", "pub", "race", "sub", "sub", "handle"} {
		k.all = append(k.all, start(t, role, k.url))
	}
	for left := kills; left > 0 && !t.Failed(); {
		k.heard(1 + k.rng.IntN(3)) // of three: so some are killed as soon as they begin
		n := min(left, 1+k.rng.IntN(4))
		k.strike(n)
		left -= n
	}
	for _, p := range k.all {
		p.signal(syscall.SIGKILL)
		p.killed(t)
	}
	stop()
	<-k.ended
	k.all = nil
	bus.Close()
	messages, gaps, publishers := k.check.totals()
	t.Logf("%d killed; %d messages of %d publishers, all whole and in order, %d gaps told; the longest that one was held up was %v, where the release rule has %v",
		kills, messages, publishers, gaps, k.longest, k.rule)
	next, err := pubsub.Open(context.Background(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	if left := files(dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
