package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestMain lets the test binary also run as a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(worker.Main(context.Background(), os.Stdin, os.Stdout, testContenders()))
	}
	os.Exit(m.Run())
}

// testContenders are the real contenders, and faulty ones.
func testContenders() worker.Contenders {
	all := contenders.All()
	for _, how := range []string{"honest", "swaps", "repeats", "spoils", "loses", "hangs"} {
		all[how] = func() worker.Contender { return faulty(how) }
	}
	return all
}

// faulty is a contender that knows what is published without receiving it, and falsifies it in one way.
type faulty string

const faultyMessages = 300

func (l faulty) Publish(ctx context.Context, r *worker.Run) error {
	r.Ready("")
	r.Begin()
	r.End(faultyMessages)
	return nil
}

func (l faulty) Subscribe(ctx context.Context, r *worker.Run) error {
	v := r.Receiver(l == "loses")
	r.Ready("")
	src := worker.NewSource(r.Spec.Size)
	var all [][]byte
	for range faultyMessages {
		all = append(all, append([]byte(nil), src.Next()...))
	}
	switch l {
	case "swaps":
		all[100], all[101] = all[101], all[100]
	case "repeats":
		all[101] = all[100]
	case "spoils":
		all[128][17] ^= 1
	case "loses":
		all = append(all[:100], all[102:]...)
	case "hangs":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	<-r.Stopped()
	for _, m := range all {
		v.Message(m)
	}
	return nil
}

func newBench(t *testing.T, transport string) *Bench {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Settings: Defaults(transport), Exe: exe, Contenders: testContenders()}
	b.Runs, b.Seconds = 1, 0.1
	return b
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the raw baseline needs the UDP GSO and GRO of Linux")
	}
}

// A contender that breaks the order or the content, or loses messages silently, is detected.
func TestFaultyContendersAreDetected(t *testing.T) {
	b := newBench(t, "udp")
	for how, wantText := range map[string]string{
		"honest": "", "loses": "", // it reports the loss
		"swaps":   "message 101 on topic bench.load received instead of message 100",
		"repeats": "message 100 on topic bench.load received twice",
		"spoils":  "message 128 on topic bench.load has the wrong content",
	} {
		o, err := b.run(t.Context(), contestant{key: how, contender: how}, worker.LoadFull)
		switch {
		case wantText == "" && err != nil:
			t.Errorf("%s: the run failed: %v", how, err)
		case wantText != "" && (err == nil || !strings.Contains(err.Error(), wantText)):
			t.Errorf("%s: %v; want an error with %q", how, err, wantText)
		case how == "loses" && (o.subs[0].Lost != 2 || o.subs[0].Messages != faultyMessages-2):
			t.Errorf("loses: report %+v, want 2 messages lost and %d received", o.subs[0], faultyMessages-2)
		}
	}
}

// For Fanfare a reported loss is no error, but a silent one is.
func TestSilentLossIsDetected(t *testing.T) {
	o := &outcome{spec: worker.Spec{Contender: contenders.Fanfare}, pub: &worker.Report{Messages: 10}}
	o.subs = []*worker.Report{{Messages: 8, Lost: 2, Gaps: 1}}
	if err := o.check(); err != nil {
		t.Error(err)
	}
	o.subs[0].Lost = 1
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "silently") {
		t.Errorf("the check of a silent loss fails with %v, want an error with \"silently\"", err)
	}
	o.subs[0].Messages = 11
	if err := o.check(); err == nil {
		t.Error("more than was published is accepted")
	}
	o.spec.Contender, o.subs[0] = contenders.UDP, &worker.Report{Messages: 8}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "silently") {
		t.Errorf("the check of a silent loss over plain UDP fails with %v, want an error with \"silently\"", err)
	}
	o.spec.Contender, o.subs[0] = contenders.Raw, &worker.Report{}
	if err := o.check(); err != nil {
		t.Errorf("raw may lose everything: %v", err)
	}
	o.subs[0].Messages = 11
	if err := o.check(); err == nil {
		t.Error("raw: more than was published is accepted")
	}
}

// When a measurement is cancelled its workers and goroutines end.
func TestCancelled(t *testing.T) {
	before := runtime.NumGoroutine()
	b := newBench(t, "udp")
	ctx, cancel := context.WithCancelCause(t.Context())
	off := errors.New("cancelled")
	timer := time.AfterFunc(300*time.Millisecond, func() { cancel(off) })
	defer timer.Stop()
	if _, err := b.run(ctx, contestant{key: "hangs", contender: "hangs"}, worker.LoadFull); !errors.Is(err, off) {
		t.Errorf("the cancelled run fails with %v, want %v", err, off)
	}
	for range 6000 {
		if runtime.NumGoroutine() <= before && len(children(t)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before; children %v", runtime.NumGoroutine(), before, children(t))
}

// children are the child processes of this one (proc_pid_children(5)).
func children(t *testing.T) []string {
	all, err := filepath.Glob("/proc/" + strconv.Itoa(os.Getpid()) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, path := range all {
		text, _ := os.ReadFile(path)
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

// decoded is the JSON of a result.
func decoded(t *testing.T, result any) map[string]any {
	t.Helper()
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]any)
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func positive(t *testing.T, m map[string]any, path ...string) {
	t.Helper()
	for i, key := range path {
		v := m[key]
		if i < len(path)-1 {
			m, _ = v.(map[string]any)
			continue
		}
		if x, ok := v.(float64); !ok || x <= 0 {
			t.Errorf("%v is %v, want a number above 0", path, v)
		}
	}
}

// JSON objects that scripts rely on.
func TestThroughputJSON(t *testing.T) {
	testenv.Slow(t)
	onLinux(t)
	b := newBench(t, "udp")
	b.Baselines = []string{contenders.Raw, contenders.Naive}
	b.Metrics = "localhost:0"
	b.Runs = 2
	result, err := longEnough(t, b)
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, contestant := range []string{"ours", "metrics", "raw", "naive"} {
		for _, what := range []string{"msgs_per_s", "bytes_per_s", "cpu_s_per_mmsg"} {
			for _, of := range []string{"min", "median", "max"} {
				positive(t, m, contestant, what, of)
			}
		}
	}
	for _, key := range []string{"ratio_raw", "ratio_naive", "ratio_metrics"} {
		positive(t, m, key)
		positive(t, m, key+"_spread", "median")
	}
	for _, key := range []string{"lost", "gaps", "allocs_per_msg"} {
		if _, ok := m[key].(float64); !ok {
			t.Errorf("%s is %v, want a number", key, m[key])
		}
	}
	if m["lost"] != 0.0 || m["gaps"] != 0.0 {
		t.Errorf("lost %v messages in %v gaps, want none", m["lost"], m["gaps"])
	}
	for _, key := range []string{"date", "cpu", "os", "go"} {
		if s, _ := m["host"].(map[string]any)[key].(string); s == "" {
			t.Errorf("host.%s is empty", key)
		}
	}
	rate := m["ours"].(map[string]any)["msgs_per_s"].(map[string]any)["max"].(float64)
	bytes := m["ours"].(map[string]any)["bytes_per_s"].(map[string]any)["max"].(float64)
	if bytes != rate*float64(b.Size) {
		t.Errorf("%v bytes a second at %v messages of %d bytes, want the product", bytes, rate, b.Size)
	}
}

func TestLatencyJSON(t *testing.T) {
	onLinux(t)
	b := newBench(t, "udp")
	b.Baselines = []string{contenders.Raw}
	b.Rate, b.Loss = 5000, 0.01
	result, err := b.Run(t.Context(), "latency")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, contestant := range []string{"ours", "lossless", "raw"} {
		for _, what := range []string{"p50_us", "p99_us", "p999_us", "max_us", "messages"} {
			positive(t, m, contestant, what)
		}
		positive(t, m, contestant, "spread", "p99_us", "max")
		contestant := m[contestant].(map[string]any)
		if contestant["p50_us"].(float64) > contestant["p99_us"].(float64) || contestant["p99_us"].(float64) > contestant["max_us"].(float64) {
			t.Errorf("percentiles decrease: %v", contestant)
		}
	}
	for _, key := range []string{"ratio_p50_raw", "ratio_p99_raw", "ratio_p999_lossless"} {
		positive(t, m, key)
	}
}

// Every request is answered by all responders, and executed once by each, also with losses. docs/protocol §24.
func TestRequestJSON(t *testing.T) {
	b := newBench(t, "udp")
	b.Subs, b.Requests, b.Goroutines, b.Loss, b.AllReplies = 3, 300, 4, 0.01, true
	result, err := b.Run(t.Context(), "request")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, contestant := range []string{"ours", "lossless"} {
		for _, what := range []string{"p50_us", "p99_us", "max_us"} {
			positive(t, m, contestant, what)
		}
		positive(t, m, contestant, "requests_per_s", "median")
		for metric, want := range map[string]float64{"answered": 300, "replies": 900, "executed": 900} {
			if got := result.Contest().Value(contestant, metric); got != want {
				t.Errorf("%s: metric %s is %v, want %v", contestant, metric, got, want)
			}
		}
	}
	positive(t, m, "ratio_p50_lossless")
	o := &outcome{spec: worker.Spec{Contender: "x", Load: worker.LoadRequest, Traffic: worker.Traffic{Requests: 5}}, pub: new(worker.Report), subs: []*worker.Report{{Bad: 2, Fault: "request 7"}}}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "responder 1: executed 2 requests twice; the first: request 7") {
		t.Errorf("the check of requests executed twice fails with %v, want responder 1 and request 7", err)
	}
	o.pub.Bad, o.pub.Fault = 1, "no reply"
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "1 of 5 requests were not answered; the first: no reply") {
		t.Errorf("not answered: %v", err)
	}
}

// Every scenario works, with all kinds of receiving.
func TestScenarios(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "mem")
	b.Baselines = []string{contenders.Channel}
	b.Rate, b.Subs, b.CheckAll = 2000, 2, true
	for _, scenario := range []string{"throughput", "latency", "idle"} {
		for _, receive := range []worker.Receive{worker.ReceiveHandle, worker.ReceiveMessages, worker.ReceiveBatch} {
			b.Receive = receive
			if scenario != "throughput" && receive != worker.ReceiveHandle {
				continue
			}
			result, err := b.Run(t.Context(), scenario)
			if err != nil {
				t.Errorf("%s, %s: the run failed: %v", scenario, receive, err)
				continue
			}
			var text strings.Builder
			if err := Write(&text, result, false); err != nil || !strings.Contains(text.String(), scenario) {
				t.Errorf("the report of %s lacks its name, error %v: %s", scenario, err, text.String())
			}
		}
	}
	if _, err := b.Run(t.Context(), "sleep"); err == nil {
		t.Error("an unknown scenario runs")
	}
}

// RoCE is compared with plain UDP with datagrams of the same size on the same interface, in turns,
// and the result reports whether it reaches the requested share.
func TestRoCEComparedWithUDP(t *testing.T) {
	testenv.Slow(t)
	onLinux(t)
	b := newBench(t, "roce")
	b.Baselines = []string{contenders.UDP}
	b.MTU, b.Size, b.Runs = 2048, 1024, 2
	for _, all := range b.contestants() {
		s, err := b.spec(all, worker.LoadFull)
		scheme := map[string]string{keyOurs: "roce://" + b.Interface + "/", contenders.UDP: "udp://"}[all.key]
		if err != nil || !strings.HasPrefix(s.URL, scheme) || !strings.Contains(s.URL, "size=2048") || !strings.Contains(s.URL, b.Interface) {
			t.Errorf("%s has the URL %s, error %v, want scheme %s, size=2048 and interface %s", all.key, s.URL, err, scheme, b.Interface)
		}
	}
	// The test does not judge the performance of a machine: one target is always reached, the other never.
	for target, word := range map[float64]string{0.001: "PASS: ", 1000: "MISSED: "} {
		b.Target = target
		result, err := b.Run(t.Context(), "throughput")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := Write(&text, result, false); err != nil || !strings.Contains(text.String(), "\n"+word) {
			t.Errorf("report with error %v lacks %q: %s", err, word, text.String())
		}
		m := decoded(t, result)
		positive(t, m, "ratio_udp")
		if m["target_udp_met"] != (word == "PASS: ") {
			t.Errorf("target_udp_met is %v, want %v", m["target_udp_met"], word == "PASS: ")
		}
	}
}

// Packets in memory are larger than those of Ethernet, which raw uses. Fanfare over UDP is measured with both sizes.
func TestPacketSizesOfBaselines(t *testing.T) {
	for transport, want := range map[string]map[string]string{
		"shm": {keyOurs: "shm://", contenders.Raw: "1472", contenders.UDP: "size=8192", keyUDPFrames: "size=1472"},
		"mem": {keyOurs: "mem://", contenders.Raw: "1472"},
	} {
		b := newBench(t, transport)
		b.Baselines = []string{contenders.Raw}
		if transport == "shm" {
			b.Baselines = append(b.Baselines, contenders.UDP)
		}
		seen := b.contestants()
		if len(seen) != len(want) {
			t.Errorf("%s: %d contestants, want %d", transport, len(seen), len(want))
		}
		for _, c := range seen {
			if err := b.CheckBaseline("throughput", contenders.Raw, contenders.All()); err != nil {
				t.Error(err)
			}
			s, err := b.spec(c, worker.LoadFull)
			if got := s.URL + " " + strconv.Itoa(s.MTU); err != nil || want[c.key] == "" || !strings.Contains(got, want[c.key]) {
				t.Errorf("%s, %s: URL and MTU %s, error %v, want %s", transport, c.key, got, err, want[c.key])
			}
		}
	}
	b := newBench(t, "shm")
	b.Baselines = []string{contenders.UDP}
	b.Runs, b.Seconds, b.MTU = 1, 0.05, 1472
	for _, c := range b.contestants() {
		if c.key == keyUDPFrames {
			t.Error("packets of Ethernet's size are measured twice")
		}
	}
}

// Measuring a subscriber of several topics and sources causes no allocations.
func TestNoAllocations(t *testing.T) {
	b := newBench(t, "mem")
	for name, set := range map[string]func(){
		"topics":     func() { b.Topics, b.Goroutines = 16, 1 },
		"goroutines": func() { b.Topics, b.Goroutines = 1, 4 },
	} {
		set()
		r, err := b.run(t.Context(), b.contestants()[0], worker.LoadFull)
		if err != nil {
			t.Fatal(err)
		}
		if n := r.allocsPerMsg(); n > 0.1 {
			t.Errorf("%s: %.2f allocations a message, want at most 0.1", name, n)
		}
	}
}

func TestTransports(t *testing.T) {
	for _, transport := range []string{"sim", "roce", "shm"} {
		if transport != "sim" {
			onLinux(t)
		}
		b := newBench(t, transport)
		if _, err := b.run(t.Context(), b.contestants()[0], worker.LoadFull); err != nil {
			t.Errorf("%s: the run failed: %v", transport, err)
		}
	}
}

// A ring in shared memory is a baseline under every load, also with messages that fill a block, and leaves no files.
func TestRing(t *testing.T) {
	testenv.Slow(t)
	onLinux(t)
	b := newBench(t, "shm")
	b.Baselines, b.Subs = []string{contenders.Ring}, 2
	for _, size := range []int{64, contenders.MaxRing} {
		b.Size = size
		for _, load := range []worker.Load{worker.LoadFull, worker.LoadPaced} {
			for _, c := range b.contestants() {
				o, err := b.run(t.Context(), c, load)
				if err != nil {
					t.Errorf("%s, %d bytes, load %v: the run failed: %v", c.key, size, load, err)
					continue
				}
				if left, _ := filepath.Glob("/dev/shm/fanfare-ring-" + strings.ReplaceAll(o.spec.Address, ":", "*")); len(left) > 0 {
					t.Errorf("files %q are left, want none", left)
				}
			}
		}
	}
}

// longEnough measures throughput, and longer if other processes use the processors and the run was
// over before enough was observed.
func longEnough(t *testing.T, b *Bench) (*Result, error) {
	t.Helper()
	result, err := b.Run(t.Context(), "throughput")
	for err != nil && strings.Contains(err.Error(), "measure for longer") && b.Seconds < 30 {
		t.Log(err)
		b.Seconds *= 3
		result, err = b.Run(t.Context(), "throughput")
	}
	return result, err
}

// Processes are inspected, each through its socket, also in-process ones.
func TestTopIsAttached(t *testing.T) {
	testenv.Slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("no inspection sockets on this system")
	}
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "fanfare"))
	b := newBench(t, "mem")
	b.Top = true
	result, err := longEnough(t, b)
	if err != nil {
		t.Fatal(err)
	}
	positive(t, decoded(t, result), "ratio_top")
	o := outcome{spec: worker.Spec{Inspected: true}}
	if err := o.watch()(); err == nil || !strings.Contains(err.Error(), "0 snapshots of workers could be read") {
		t.Errorf("processes that cannot be inspected: %v", err)
	}
}

// Metrics are scraped, also of in-process transports.
func TestMetricsAreRead(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "mem")
	b.Metrics = "localhost:0"
	result, err := longEnough(t, b)
	if err != nil {
		t.Fatal(err)
	}
	positive(t, decoded(t, result), "ratio_metrics")
	o := outcome{spec: worker.Spec{Metrics: "localhost:0"}}
	if err := o.watch(&worker.Process{Metrics: []string{"localhost:1"}})(); err == nil {
		t.Error("unreadable metrics are no error")
	}
}
