package shm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
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
// the time of silence and 30 round trips, and the heartbeat that finds so. docs/protocol §5.8, §8.4.
func releaseRule(trip time.Duration) time.Duration {
	const apart, asked = 100 * time.Millisecond, 10
	return max(asked*apart, config.Silence, 30*trip) + apart
}

// onBusyHost is for how many times that long the longest may be held up here, where the median may be no longer than the
// rule itself. The rule is about the time of one process. Here seven share two processors or so with each other and with
// other programs: several have to be scheduled, one after the other, before a message has come, and those that just
// began take much of that time. That befalls a publisher now and then, and not every other one.
const onBusyHost = 3

// enoughStalls is of how many at least the median is one: of fewer it is the longest, or nearly.
const enoughStalls = 10

// killing is a fabric whose processes are killed, and a subscriber that is not.
type killing struct {
	t     *testing.T
	url   string
	rng   *rand.Rand
	clock *hostClock
	check *checker
	ended chan error // of that subscriber
	all   []*process
	held  []stall
}

// stall is for how long a publisher was held up after a strike.
type stall struct {
	role       string
	took, rule time.Duration
	subscriber bool // one was killed: where none was, a publisher has nobody to wait for
}

func (s stall) String() string {
	return fmt.Sprintf("%v of a %s, where the release rule has %v", s.took.Round(time.Millisecond), s.role, s.rule.Round(time.Millisecond))
}

// byRule compares how many times the release rule two have taken.
func byRule(a, b stall) int {
	return cmp.Compare(a.took.Seconds()/a.rule.Seconds(), b.took.Seconds()/b.rule.Seconds())
}

func startKilling(t *testing.T, url string) *killing {
	return &killing{t: t, url: url, rng: seeded(t), clock: startClock(t), check: newChecker(), ended: make(chan error, 1)}
}

// await waits until something has come.
func (k *killing) await(what string, come func() bool) {
	k.t.Helper()
	start := time.Now()
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
	began, subscriber := k.clock.now(), false
	dead := make(map[int]bool)
	for _, i := range k.rng.Perm(len(k.all))[:kills] {
		dead[i] = true
		subscriber = subscriber || !k.all[i].publishes()
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
	k.await("more of each publisher that lives", func() bool {
		waited = slices.DeleteFunc(waited, func(p *process) bool {
			enough := window
			if p.role == "race" {
				enough = 1 // of which much may be lost: it waits for nobody
			}
			n, trip := k.check.counted(p.pid())
			if n < enough {
				return false
			}
			k.held = append(k.held, stall{role: p.role, took: k.clock.now() - began, rule: releaseRule(trip), subscriber: subscriber})
			return true
		})
		return len(waited) == 0
	})
}

// judge holds against the release rule for how long publishers were held up: all of them, and the median of those that
// wait, and had somebody to wait for. It has that in words.
func (k *killing) judge() string {
	k.t.Helper()
	if len(k.held) == 0 {
		k.t.Error("no publisher has outlived a strike: the test shows nothing")
		return ""
	}
	var waiting []stall
	for _, s := range k.held {
		if s.took > onBusyHost*s.rule {
			k.t.Errorf("held up for too long: %v", s)
		}
		if s.role != "race" && s.subscriber {
			waiting = append(waiting, s)
		}
	}
	text := fmt.Sprintf("the longest that one was held up was %v", slices.MaxFunc(k.held, byRule))
	if len(waiting) < enoughStalls {
		return fmt.Sprintf("%s; %d waited for a subscriber that was killed: too few for a median", text, len(waiting))
	}
	slices.SortFunc(waiting, byRule)
	median := waiting[len(waiting)/2]
	if median.took > median.rule {
		k.t.Errorf("the median of %d that waited for a subscriber that was killed is %v", len(waiting), median)
	}
	return fmt.Sprintf("%s; the median of %d that waited for a subscriber that was killed %v", text, len(waiting), median)
}

// lonely is what there is of an endpoint without others: the user's directory, the fabric's, its members file, a file and a bell.
const lonely = 5

// Publishers and subscribers are killed at any moment. Nobody gets a torn message or loses one
// untold, those that live go on within the release rule, and the next that starts removes what is left.
// docs/protocol §8.4, §28.6, §28.8.
func TestKilled(t *testing.T) {
	testenv.Slow(t)
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
	stop()
	<-k.ended
	bus.Close() // who lives longest is killed, too
	each := len(k.all)
	// Those that began last are killed when they have something to leave behind.
	k.await("the files of each", func() bool { return len(files(dir)) >= lonely+2*(each-1) })
	for _, p := range k.all {
		p.signal(syscall.SIGKILL)
		p.killed(t)
	}
	k.all = nil
	messages, gaps, publishers := k.check.totals()
	t.Logf("%d killed; %d messages of %d publishers, all whole and in order, %d gaps told; %s",
		kills, messages, publishers, gaps, k.judge())
	if left := files(dir); len(left) < each {
		t.Errorf("%d have been killed and have left %q: there is nothing to clean up", each, left)
	}
	next, err := pubsub.Open(context.Background(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	if left := files(dir); len(left) != lonely {
		t.Errorf("left behind beside what the next one has itself: %q", left)
	}
	next.Close()
	if left := files(dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
