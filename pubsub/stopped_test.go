//go:build unix

package pubsub

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The test of a subscriber that is stopped: four processes subscribe, the test's binary
// again, which this variable makes a subscriber: a stopSpec as JSON.
const stopProcess = "FANFARE_TEST_STOPPED"

const (
	stopSubs  = 4   // processes; the last is stopped
	stopRound = 48  // messages, fewer than the publisher's window holds
	stopKeys  = 16  // of conflation; a round has each
	stopPhase = 768 // messages, of which the window and the stopped socket hold a part
	stopSize  = 1000
	stopTotal = 3 * stopPhase // all there, one stopped, all there again
	stopName  = "stopped"
)

// stopCase is one publisher with its strategy, and four subscriptions of one policy.
type stopCase struct {
	Flow, Policy, URL string
}

type stopSpec struct {
	Name  string
	Cases []stopCase
}

// stopPolicies are what a subscription does that is read too slowly.
var stopPolicies = map[string][]SubscribeOption{
	"block":    {SlowConsumer(SlowBlock)},
	"gap":      {SlowConsumer(SlowGap)},
	"latest":   {SlowConsumer(SlowLatest), MaxBehind(100)},
	"evict":    {SlowConsumer(SlowEvict), MaxBehind(100)},
	"conflate": {Conflate(func(m Message) []byte { return m.Data[8:9] })},
}

// defaultSilence is Config.Silence where nobody says anything else.
const defaultSilence = time.Second

// stopFlows are the publishers' strategies. With held the stopped one is waited for as long
// as it takes, with min until it has been silent for long enough. With release it is released as
// slow, and with silent it then falls silent, too.
var stopFlows = map[string]Config{
	"held":     {StallLimit: NoStallLimit},
	"min":      {Silence: time.Second / 2},
	"none":     {FlowControl: FlowNone},
	"max":      {FlowControl: FlowMax},
	"quorum:3": {FlowControl: FlowQuorum(3)},
	"release":  {SlowBehind: 100, SlowFor: 200 * time.Millisecond}, // more than fit into the sockets, which are small
	"silent":   {SlowBehind: 100, SlowFor: 200 * time.Millisecond, Silence: defaultSilence},
}

// stopEnd is what a subscriber got in one case.
type stopEnd struct {
	Got, Lost, Replaced uint64
	Gaps                int
	Causes              []string
	Evicted             bool
	Fault               string // what must not be
}

// stopLine is what a process says: that a case's subscription has all before At, or the end.
type stopLine struct {
	Case int
	At   uint64
	End  *stopEnd
}

// One of four subscriber processes is stopped (SIGSTOP) for a while, under each policy of
// its subscription and each strategy of its publisher, all at the same time. The other three
// get every message in order, also while it is stopped: only who is told to wait for all
// waits, as long as it is told to. The one that goes on has everything, or is told exactly
// what it lacks; and the publisher knows who it was. One that was released hears that as the
// cause of its gaps, also where its publisher has forgotten it meanwhile.
// docs/protocol §8.1, §8.4, §8.9, §8.12.
func TestStoppedProcess(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	if spec := os.Getenv(stopProcess); spec != "" {
		stopSubscriber(t, spec)
		return
	}
	ctx := testContext(t)
	var cases []stopCase
	for f, flow := range []string{"held", "min", "none", "max", "quorum:3", "release", "silent"} {
		for p, policy := range []string{"block", "gap", "latest", "evict", "conflate"} {
			if testing.Short() && p != f%5 { // each flow with one policy
				continue
			}
			cases = append(cases, stopCase{flow, policy, udpURL(t) + "&rcvbuf=65536"})
		}
	}
	board := &stopBoard{}
	board.cond.L = &board.mu
	defer context.AfterFunc(ctx, board.cond.Broadcast)()
	var stopped *exec.Cmd
	for i := range stopSubs {
		stopped = board.start(t, ctx, i, cases)
	}
	runs := make([]*stopRun, len(cases))
	var two, all sync.WaitGroup // phases
	one, cont := make(chan struct{}, len(cases)), make(chan struct{})
	goOn := make(chan struct{})
	for i, c := range cases {
		r := newStopRun(t, i, c, board)
		runs[i] = r
		if c.Flow != "held" {
			two.Add(1)
		}
		all.Go(func() {
			wait(t, ctx, r.pub, stopSubs)
			r.phase(t, ctx, 0, stopSubs)
			one <- struct{}{}
			<-goOn
			r.phase(t, ctx, 1, stopSubs-1)
			if c.Flow == "silent" {
				r.told.awaitOf(t, ctx, events.SubscriberSilent, stopName)
			}
			if c.Flow != "held" {
				two.Done()
			}
			<-cont
			board.await(t, ctx, i, stopSubs, 2*stopPhase)
			r.phase(t, ctx, 2, stopSubs)
		})
	}
	for range cases {
		<-one
	}
	stopSignal(t, stopped, syscall.SIGSTOP)
	close(goOn)
	two.Wait()
	for _, r := range runs {
		r.whileStopped(t)
	}
	stopSignal(t, stopped, syscall.SIGCONT)
	close(cont)
	all.Wait()
	for _, r := range runs {
		r.judge(t, ctx)
	}
}

func stopSignal(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stopBoard is what the processes have said.
type stopBoard struct {
	mu   sync.Mutex
	cond sync.Cond
	at   [stopSubs]map[int]uint64   // under mu, by case
	ends [stopSubs]map[int]*stopEnd // under mu
}

// start starts a process and takes what it says.
func (b *stopBoard) start(t *testing.T, ctx context.Context, index int, cases []stopCase) *exec.Cmd {
	spec := stopSpec{fmt.Sprint("there-", index), cases}
	if index == stopSubs-1 {
		spec.Name = stopName
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestStoppedProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), stopProcess+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("process %d says %q", index, lines.Text())
	}
	b.at[index], b.ends[index] = make(map[int]uint64), make(map[int]*stopEnd)
	var reader sync.WaitGroup
	reader.Go(func() {
		for lines.Scan() {
			var l stopLine
			if json.Unmarshal(lines.Bytes(), &l) != nil {
				continue // what the testing package says
			}
			b.mu.Lock()
			b.at[index][l.Case] = max(b.at[index][l.Case], l.At)
			if l.End != nil {
				b.ends[index][l.Case] = l.End
			}
			b.mu.Unlock()
			b.cond.Broadcast()
		}
	})
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT) // or a failed test would leave it behind
		reader.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", index, err)
		}
	})
	return cmd
}

// await waits until the first n subscribers of a case have all before number, or have ended.
func (b *stopBoard) await(t *testing.T, ctx context.Context, of, n int, number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		for b.at[i][of] < number && b.ends[i][of] == nil {
			if ctx.Err() != nil {
				t.Errorf("case %d: subscriber %d has all before %d, want %d", of, i, b.at[i][of], number)
				return
			}
			b.cond.Wait()
		}
	}
}

// stopRun is one case, at its publisher.
type stopRun struct {
	stopCase
	index     int
	bus       *Bus
	pub       *Publisher
	board     *stopBoard
	told      heard
	published atomic.Uint64
	took      [3]time.Duration // by phase
	longest   [3]time.Duration // rounds
}

func newStopRun(t *testing.T, index int, c stopCase, board *stopBoard) *stopRun {
	r := &stopRun{stopCase: c, index: index, board: board}
	cfg := stopFlows[c.Flow]
	cfg.WindowBytes, cfg.OnEvent = 256<<10, r.told.event
	cfg.Silence = cmp.Or(cfg.Silence, 10*time.Minute) // a slow host is not what is tested
	r.bus = openBus(t, cfg, c.URL)
	r.pub = publisher(t, r.bus, "x")
	return r
}

// phase publishes the phase's messages, round after round, each when the first n subscribers
// have the one before.
func (r *stopRun) phase(t *testing.T, ctx context.Context, phase, n int) {
	msg, began := make([]byte, stopSize), time.Now()
	for number := uint64(phase * stopPhase); number < uint64((phase+1)*stopPhase); {
		since := time.Now()
		for range stopRound {
			binary.LittleEndian.PutUint64(msg, number)
			msg[8] = byte(number % stopKeys)
			if err := r.pub.Publish(ctx, msg); err != nil {
				t.Errorf("%s, %s: message %d: %v", r.Flow, r.Policy, number, err)
				return
			}
			number++
			r.published.Store(number)
		}
		if err := r.pub.Flush(ctx); err != nil {
			t.Errorf("%s, %s: %v", r.Flow, r.Policy, err)
		}
		r.board.await(t, ctx, r.index, n, number)
		r.longest[phase] = max(r.longest[phase], time.Since(since))
	}
	r.took[phase] = time.Since(began)
}

// whileStopped is looked at when all who do not wait have published, and nothing came to
// the one that is stopped.
func (r *stopRun) whileStopped(t *testing.T) {
	n := r.published.Load()
	if held := r.Flow == "held"; held == (n == 2*stopPhase) {
		t.Errorf("%s, %s: %d of %d messages are published while one subscriber is stopped", r.Flow, r.Policy, n, 2*stopPhase)
	}
	var kinds []events.Kind
	switch r.Flow {
	case "min":
		kinds = []events.Kind{events.SubscriberSilent}
	case "release":
		kinds = []events.Kind{events.SlowSubscriber}
	case "silent":
		kinds = []events.Kind{events.SlowSubscriber, events.SubscriberSilent}
	}
	for _, kind := range kinds {
		if !slices.ContainsFunc(r.told.of(kind), func(e events.Event) bool { return e.Name == stopName }) {
			t.Errorf("%s, %s: no event %v names it: %v", r.Flow, r.Policy, kind, r.told.of(kind))
		}
	}
	if r.Flow == "min" || r.Flow == "silent" { // it is not known any more
		return
	}
	all := r.pub.Receivers()
	i := slices.IndexFunc(all, func(x stats.Subscriber) bool { return x.Name == stopName })
	if len(all) != stopSubs || i < 0 || all[i].Behind == 0 {
		t.Errorf("%s, %s: subscribers %+v", r.Flow, r.Policy, all)
	}
}

// judge waits for what the subscribers got in the end.
func (r *stopRun) judge(t *testing.T, ctx context.Context) {
	r.board.await(t, ctx, r.index, stopSubs, stopTotal+1)
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	for i := range stopSubs {
		who := fmt.Sprintf("%s, %s, subscriber %d", r.Flow, r.Policy, i)
		e := r.board.ends[i][r.index]
		if e == nil {
			t.Errorf("%s has not ended", who)
			continue
		}
		sum := e.Got + e.Lost + e.Replaced
		switch last := i == stopSubs-1; {
		case e.Fault != "":
			t.Errorf("%s: %s", who, e.Fault)
		case e.Evicted != (sum != stopTotal) || e.Evicted && r.Policy != "evict":
			t.Errorf("%s: %d of %d messages are accounted for: %+v", who, sum, stopTotal, e)
		case !last && (e.Evicted || e.Lost > 0 || r.Policy != "conflate" && e.Replaced > 0):
			t.Errorf("%s was not stopped, and lost something: %+v", who, e)
		case last && (e.Lost == 0) != (r.Flow == "held") && !e.Evicted && (r.Flow != "held" || r.Policy == "block"):
			t.Errorf("%s was stopped: %+v", who, e)
		case last && r.Policy == "block" && (r.Flow == "release" || r.Flow == "silent") && !slices.Equal(e.Causes, []string{events.CauseReleased.String()}):
			t.Errorf("%s was released, and its gaps have other causes: %+v", who, e)
		}
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	t.Logf("%-8s %-8s all there %5.1f ms (longest round %5.1f), one stopped %6.1f (%6.1f), back %5.1f (%5.1f); stopped one: %+v",
		r.Flow, r.Policy, ms(r.took[0]), ms(r.longest[0]), ms(r.took[1]), ms(r.longest[1]), ms(r.took[2]), ms(r.longest[2]), *r.board.ends[stopSubs-1][r.index])
}

// stopSubscriber is one of the processes.
func stopSubscriber(t *testing.T, text string) {
	ctx := testContext(t)
	var spec stopSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(l stopLine) {
		mu.Lock()
		defer mu.Unlock()
		out.Encode(l)
	}
	var subs []*Subscription
	for _, c := range spec.Cases {
		subs = append(subs, subscribe(t, openBus(t, Config{Name: spec.Name}, c.URL), "x", stopPolicies[c.Policy]...))
	}
	var all sync.WaitGroup
	for i, s := range subs {
		all.Go(func() {
			r := &stopReader{conflated: spec.Cases[i].Policy == "conflate"}
			told := uint64(0)
			for r.all() < stopTotal && !r.Evicted && r.Fault == "" {
				r.take(s.Next(ctx))
				if at := r.all() / stopRound; at > told {
					told = at
					say(stopLine{Case: i, At: at * stopRound})
				}
			}
			if r.conflated {
				r.Replaced = s.Stats().Replaced
			}
			say(stopLine{Case: i, At: stopTotal + 1, End: &r.stopEnd})
		})
	}
	fmt.Println("ready")
	all.Wait()
}

// stopReader judges what a subscription gets.
type stopReader struct {
	stopEnd
	conflated bool
	next      uint64
	newest    [stopKeys]uint64 // one more than the number of each key's newest message
}

// all is how far everything has come: with conflation the newest of all keys.
func (r *stopReader) all() uint64 {
	if !r.conflated {
		return r.next
	}
	if least := slices.Min(r.newest[:]); least > 0 {
		return least + stopKeys - 1
	}
	return 0
}

func (r *stopReader) take(m Message, err error) {
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		if gap.Count == 0 || !r.conflated && gap.First != r.next {
			r.Fault = fmt.Sprintf("at %d: %+v", r.next, gap)
		}
		if c := gap.Cause.String(); !slices.Contains(r.Causes, c) {
			r.Causes = append(r.Causes, c)
		}
		r.next = gap.First + gap.Count
		r.Lost += gap.Count
		r.Gaps++
	case errors.Is(err, events.ErrEvicted):
		r.Evicted = true
	case err != nil:
		r.Fault = err.Error()
	case binary.LittleEndian.Uint64(m.Data) != m.Number || m.Data[8] != byte(m.Number%stopKeys):
		r.Fault = fmt.Sprintf("message %d holds %x", m.Number, m.Data[:9])
	case r.conflated:
		newest := &r.newest[m.Number%stopKeys]
		if m.Number < *newest {
			r.Fault = fmt.Sprintf("message %d behind %d", m.Number, *newest-1)
		}
		*newest = m.Number + 1
		r.Got++
	case m.Number != r.next:
		r.Fault = fmt.Sprintf("message %d, %d is next", m.Number, r.next)
	default:
		r.next++
		r.Got++
	}
}
