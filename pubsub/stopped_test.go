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

// stopProcess is an environment variable with a stopSpec in JSON. With it the test binary runs as a subscriber of
// TestStoppedProcess.
const stopProcess = "FANFARE_TEST_STOPPED"

const (
	stopSubs  = 4   // processes; the last is stopped
	stopRound = 48  // messages, fewer than the publisher's window holds
	stopKeys  = 16  // keys for conflation; each round has all of them
	stopPhase = 768 // messages; the window and the stopped process's socket hold only a part of them
	stopSize  = 1000
	stopTotal = 3 * stopPhase // phases: all running, one stopped, all running
	stopName  = "stopped"
)

// stopCase is one publisher with its flow control, and four subscriptions with one policy.
type stopCase struct {
	Flow, Policy, URL string
}

type stopSpec struct {
	Name  string
	Cases []stopCase
}

// stopPolicies are the options for slow subscriptions.
var stopPolicies = map[string][]SubscribeOption{
	"block":    {SlowConsumer(SlowBlock)},
	"gap":      {SlowConsumer(SlowGap)},
	"latest":   {SlowConsumer(SlowLatest), MaxBehind(100)},
	"evict":    {SlowConsumer(SlowEvict), MaxBehind(100)},
	"conflate": {Conflate(func(m Message) []byte { return m.Data[8:9] })},
}

// defaultSilence is the default of Config.Silence.
const defaultSilence = time.Second

// stopFlows are the flow controls. With held the publisher waits without limit for the stopped subscriber, with min
// until it is silent. With release the subscriber is released as slow, and with silent it then falls silent, too.
var stopFlows = map[string]Config{
	"held":     {StallLimit: NoStallLimit},
	"min":      {Silence: time.Second / 2},
	"none":     {FlowControl: FlowNone},
	"max":      {FlowControl: FlowMax},
	"quorum:3": {FlowControl: FlowQuorum(3)},
	"release":  {SlowBehind: 100, SlowFor: 200 * time.Millisecond}, // more than fit into the sockets, which are small
	"silent":   {SlowBehind: 100, SlowFor: 200 * time.Millisecond, Silence: defaultSilence},
}

// stopEnd is the result of a subscriber in one case.
type stopEnd struct {
	Got, Lost, Replaced uint64
	Gaps                int
	Causes              []string
	Evicted             bool
	Fault               string // an error; empty if there is none
}

// stopLine is a line of output of a process: the subscription of a case has all messages before At, or its result.
type stopLine struct {
	Case int
	At   uint64
	End  *stopEnd
}

// One of four subscriber processes is stopped (SIGSTOP) for a while, with each policy and each flow control at the same
// time. The other three receive every message in order, also meanwhile: only publishers configured to wait for all
// wait. When the stopped one continues it gets everything or exact gaps, and the publisher's events name it. If it was
// released, its gaps have that cause, even if the publisher has forgotten it. docs/protocol §8.1, §8.4, §8.9, §8.12.
func TestStoppedProcess(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	if spec := os.Getenv(stopProcess); spec != "" {
		stopSubscriber(t, spec)
		return
	}
	ctx := testContext(t)
	var cases []stopCase
	for f, flow := range []string{"held", "min", "none", "max", "quorum:3", "release", "silent"} {
		for p, policy := range []string{"block", "gap", "latest", "evict", "conflate"} {
			if testing.Short() && p != f%5 { // each flow control with one policy
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
				r.reported.awaitOf(t, ctx, events.SubscriberSilent, stopName)
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

// stopBoard collects the output of the processes.
type stopBoard struct {
	mu   sync.Mutex
	cond sync.Cond
	at   [stopSubs]map[int]uint64   // under mu, by case
	ends [stopSubs]map[int]*stopEnd // under mu
}

// start starts a process and reads its output.
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
		t.Fatalf("process %d prints %q, want ready", index, lines.Text())
	}
	b.at[index], b.ends[index] = make(map[int]uint64), make(map[int]*stopEnd)
	var reader sync.WaitGroup
	reader.Go(func() {
		for lines.Scan() {
			var l stopLine
			if json.Unmarshal(lines.Bytes(), &l) != nil {
				continue // output of the testing package
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
		cmd.Process.Signal(syscall.SIGCONT) // otherwise a failed test would leave it stopped
		reader.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d ended: %v", index, err)
		}
	})
	return cmd
}

// await waits until the first n subscribers of a case have all messages before number, or have ended.
func (b *stopBoard) await(t *testing.T, ctx context.Context, of, n int, number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		for b.at[i][of] < number && b.ends[i][of] == nil {
			if ctx.Err() != nil {
				t.Errorf("case %d: subscriber %d has all messages before %d, want %d", of, i, b.at[i][of], number)
				return
			}
			b.cond.Wait()
		}
	}
}

// stopRun is the publisher of one case.
type stopRun struct {
	stopCase
	index     int
	bus       *Bus
	pub       *Publisher
	board     *stopBoard
	reported  eventLog
	published atomic.Uint64
	took      [3]time.Duration // by phase
	longest   [3]time.Duration // rounds
}

func newStopRun(t *testing.T, index int, c stopCase, board *stopBoard) *stopRun {
	r := &stopRun{stopCase: c, index: index, board: board}
	cfg := stopFlows[c.Flow]
	cfg.WindowBytes, cfg.OnEvent = 256<<10, r.reported.event
	cfg.Silence = cmp.Or(cfg.Silence, 10*time.Minute) // a slow host must not cause silence
	r.bus = openBus(t, cfg, c.URL)
	r.pub = publisher(t, r.bus, "x")
	return r
}

// phase publishes the messages of a phase in rounds, each after the first n subscribers have the round before.
func (r *stopRun) phase(t *testing.T, ctx context.Context, phase, n int) {
	msg, began := make([]byte, stopSize), time.Now()
	for number := uint64(phase * stopPhase); number < uint64((phase+1)*stopPhase); {
		since := time.Now()
		for range stopRound {
			binary.LittleEndian.PutUint64(msg, number)
			msg[8] = byte(number % stopKeys)
			if err := r.pub.Publish(ctx, msg); err != nil {
				t.Errorf("%s, %s: publishing message %d: %v", r.Flow, r.Policy, number, err)
				return
			}
			number++
			r.published.Store(number)
		}
		if err := r.pub.Flush(ctx); err != nil {
			t.Errorf("%s, %s: Flush: %v", r.Flow, r.Policy, err)
		}
		r.board.await(t, ctx, r.index, n, number)
		r.longest[phase] = max(r.longest[phase], time.Since(since))
	}
	r.took[phase] = time.Since(began)
}

// whileStopped checks the state when all publishers that do not wait have published, and one subscriber is stopped.
func (r *stopRun) whileStopped(t *testing.T) {
	n := r.published.Load()
	if held := r.Flow == "held"; held == (n == 2*stopPhase) {
		t.Errorf("%s, %s: %d of %d messages are published while one subscriber is stopped, want all unless the publisher is held", r.Flow, r.Policy, n, 2*stopPhase)
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
		if !slices.ContainsFunc(r.reported.of(kind), func(e events.Event) bool { return e.Name == stopName }) {
			t.Errorf("%s, %s: no event %v names the stopped subscriber: %v", r.Flow, r.Policy, kind, r.reported.of(kind))
		}
	}
	if r.Flow == "min" || r.Flow == "silent" { // the publisher no longer knows it
		return
	}
	all := r.pub.Receivers()
	i := slices.IndexFunc(all, func(x stats.Subscriber) bool { return x.Name == stopName })
	if len(all) != stopSubs || i < 0 || all[i].Behind == 0 {
		t.Errorf("%s, %s: subscribers %+v, want %d, with %s behind", r.Flow, r.Policy, all, stopSubs, stopName)
	}
}

// judge waits for the results of the subscribers and checks them.
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
			t.Errorf("%s failed: %s", who, e.Fault)
		case e.Evicted != (sum != stopTotal) || e.Evicted && r.Policy != "evict":
			t.Errorf("%s: %d of %d messages were delivered or lost: %+v", who, sum, stopTotal, e)
		case !last && (e.Evicted || e.Lost > 0 || r.Policy != "conflate" && e.Replaced > 0):
			t.Errorf("%s was not stopped, and lost something: %+v", who, e)
		case last && (e.Lost == 0) != (r.Flow == "held") && !e.Evicted && (r.Flow != "held" || r.Policy == "block"):
			t.Errorf("%s was stopped: %+v", who, e)
		case last && r.Policy == "block" && (r.Flow == "release" || r.Flow == "silent") && !slices.Equal(e.Causes, []string{events.CauseReleased.String()}):
			t.Errorf("%s was released, and its gaps have other causes: %+v", who, e)
		}
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	t.Logf("%-8s %-8s all running %5.1f ms (longest round %5.1f), one stopped %6.1f (%6.1f), all running %5.1f (%5.1f); stopped one: %+v",
		r.Flow, r.Policy, ms(r.took[0]), ms(r.longest[0]), ms(r.took[1]), ms(r.longest[1]), ms(r.took[2]), ms(r.longest[2]), *r.board.ends[stopSubs-1][r.index])
}

// stopSubscriber runs one of the processes.
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
			reported := uint64(0)
			for r.all() < stopTotal && !r.Evicted && r.Fault == "" {
				r.take(s.Next(ctx))
				if at := r.all() / stopRound; at > reported {
					reported = at
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

// stopReader checks what a subscription delivers.
type stopReader struct {
	stopEnd
	conflated bool
	next      uint64
	newest    [stopKeys]uint64 // number of each key's newest message, plus one
}

// all is the number before which all messages were delivered or lost; with conflation it follows from the newest of
// each key.
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
			r.Fault = fmt.Sprintf("message %d after %d", m.Number, *newest-1)
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
