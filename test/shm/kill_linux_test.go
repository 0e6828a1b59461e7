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

// killsVar is the environment variable for the number of processes to kill or stop.
const killsVar = "FANFARE_KILLS"

func howMany(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv(killsVar)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s is no number: %v", killsVar, err)
	}
	return n
}

// hostClock measures the time for which the host lets this process run: it advances by at most two
// ticks between two of its own ticks, however late they are.
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

// releaseRule returns the maximum time for which a killed subscriber may block a publisher with
// this round trip: ten soliciting heartbeats at most 100 ms apart, within the silence time and 30
// round trips, and the heartbeat that detects it. docs/protocol §5.8, §8.4.
func releaseRule(trip time.Duration) time.Duration {
	const apart, heartbeats = 100 * time.Millisecond, 10
	return max(heartbeats*apart, config.Silence, 30*trip) + apart
}

// busyFactor multiplies that time for the longest stall, while the median must meet the rule itself. The rule
// is for the time of one process. Here seven processes share about two processors with each other and with
// other programs: several must be scheduled one after the other before a message arrives, and those just
// started take much of that time. That happens to a publisher occasionally, not every other time.
const busyFactor = 3

// enoughStalls is the minimum number of stalls for a meaningful median.
const enoughStalls = 10

// killing is a fabric with processes that are killed, and a subscriber that is not.
type killing struct {
	t             *testing.T
	url           string
	rng           *rand.Rand
	clock         *hostClock
	check         *checker
	subscriberErr chan error // of that subscriber
	all           []*process
	stalls        []stall
}

// stall is the time for which a publisher was blocked after a strike.
type stall struct {
	role          string
	elapsed, rule time.Duration
	subscriber    bool // a subscriber was killed: otherwise the publisher waits for none
}

func (s stall) String() string {
	return fmt.Sprintf("%v of a %s, the release rule is %v", s.elapsed.Round(time.Millisecond), s.role, s.rule.Round(time.Millisecond))
}

// byRule compares two stalls, relative to the release rule.
func byRule(a, b stall) int {
	return cmp.Compare(a.elapsed.Seconds()/a.rule.Seconds(), b.elapsed.Seconds()/b.rule.Seconds())
}

func startKilling(t *testing.T, url string) *killing {
	return &killing{t: t, url: url, rng: seeded(t), clock: startClock(t), check: newChecker(), subscriberErr: make(chan error, 1)}
}

// await waits until done reports true.
func (k *killing) await(what string, done func() bool) {
	k.t.Helper()
	start := time.Now()
	for ; !done(); time.Sleep(time.Millisecond) {
		select {
		case err := <-k.subscriberErr:
			k.t.Fatalf("the permanent subscriber ended: %v", err)
		default:
		}
		if time.Since(start) > waitTimeout {
			k.t.Fatalf("%s: not in %v", what, waitTimeout)
		}
	}
}

// received waits until messages of that many live publishers have arrived.
func (k *killing) received(publishers int) {
	k.t.Helper()
	k.await("messages of live publishers", func() bool {
		n := 0
		for _, p := range k.all {
			if p.publishes() && k.check.received(p.pid()) {
				n++
			}
		}
		return n >= publishers
	})
}

// strike kills several processes at once. The publishers received by then continue within the
// release rule: more data of each arrives than its window holds, all of it published after the
// strike, so that none of it waited for a killed subscriber.
func (k *killing) strike(kills int) {
	k.t.Helper()
	time.Sleep(time.Duration(k.rng.IntN(30_000)) * time.Microsecond) // some processes may have just begun
	began, subscriber := k.clock.now(), false
	dead := make(map[int]bool)
	for _, i := range k.rng.Perm(len(k.all))[:kills] {
		dead[i] = true
		subscriber = subscriber || !k.all[i].publishes()
		k.all[i].signal(syscall.SIGKILL)
	}
	var waited []*process
	for i, p := range k.all {
		if !dead[i] && p.publishes() && k.check.received(p.pid()) {
			waited = append(waited, p)
			k.check.count(p.pid())
		}
	}
	for i := range dead {
		k.all[i].killed(k.t)
		k.all[i] = start(k.t, k.all[i].role, k.url)
	}
	k.await("further messages of each live publisher", func() bool {
		waited = slices.DeleteFunc(waited, func(p *process) bool {
			enough := window
			if p.role == "race" {
				enough = 1 // without flow control most messages may be lost
			}
			n, trip := k.check.counted(p.pid())
			if n < enough {
				return false
			}
			k.stalls = append(k.stalls, stall{role: p.role, elapsed: k.clock.now() - began, rule: releaseRule(trip), subscriber: subscriber})
			return true
		})
		return len(waited) == 0
	})
}

// checkStalls compares the times for which publishers were blocked with the release rule: all of them,
// and the median of those that waited for a killed subscriber. It returns a summary.
func (k *killing) checkStalls() string {
	k.t.Helper()
	if len(k.stalls) == 0 {
		k.t.Error("no publisher survived a strike: the test has no result")
		return ""
	}
	var waiting []stall
	for _, s := range k.stalls {
		if s.elapsed > busyFactor*s.rule {
			k.t.Errorf("blocked for too long: %v", s)
		}
		if s.role != "race" && s.subscriber {
			waiting = append(waiting, s)
		}
	}
	text := fmt.Sprintf("longest stall %v", slices.MaxFunc(k.stalls, byRule))
	if len(waiting) < enoughStalls {
		return fmt.Sprintf("%s; %d waited for a killed subscriber: too few for a median", text, len(waiting))
	}
	slices.SortFunc(waiting, byRule)
	median := waiting[len(waiting)/2]
	if median.elapsed > median.rule {
		k.t.Errorf("the median of %d stalls caused by a killed subscriber is %v, want at most %v", len(waiting), median, median.rule)
	}
	return fmt.Sprintf("%s; median of %d stalls caused by a killed subscriber %v", text, len(waiting), median)
}

// singleFiles is the number of files of a single endpoint: the user's directory, the fabric's, its members file, a file and
// a bell.
const singleFiles = 5

// Publishers and subscribers are killed at any time. No message is torn or lost without a report,
// the remaining processes continue within the release rule, and the next process that starts
// removes leftovers. docs/protocol §8.4, §28.6, §28.8.
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
	go func() { k.subscriberErr <- read(ctx, bus, k.check) }()
	defer func() {
		for _, p := range k.all {
			p.end()
		}
	}()
	for _, role := range []string{"pub", "pub", "race", "sub", "sub", "handle"} {
		k.all = append(k.all, start(t, role, k.url))
	}
	for left := kills; left > 0 && !t.Failed(); {
		k.received(1 + k.rng.IntN(3)) // of three: some are killed as soon as they begin
		n := min(left, 1+k.rng.IntN(4))
		k.strike(n)
		left -= n
	}
	stop()
	<-k.subscriberErr
	bus.Close() // the permanent subscriber is killed, too
	each := len(k.all)
	// The last processes are killed once their files exist.
	k.await("the files of each", func() bool { return len(files(dir)) >= singleFiles+2*(each-1) })
	for _, p := range k.all {
		p.signal(syscall.SIGKILL)
		p.killed(t)
	}
	k.all = nil
	messages, gaps, publishers := k.check.totals()
	t.Logf("%d killed; %d messages of %d publishers, all intact and in order, %d gaps reported; %s",
		kills, messages, publishers, gaps, k.checkStalls())
	if left := files(dir); len(left) < each {
		t.Errorf("%d were killed and left %q: too few files to clean up", each, left)
	}
	next, err := pubsub.Open(context.Background(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	if left := files(dir); len(left) != singleFiles {
		t.Errorf("files %q are left, want %d of the next process", left, singleFiles)
	}
	next.Close()
	if left := files(dir); len(left) > 0 {
		t.Errorf("files %q are left over, want none", left)
	}
}
