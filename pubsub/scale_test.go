package pubsub

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// The aim is 100,000 subscriptions and 10,000 patterns, each opened in 2 s and closed in 2 s. The durations are logged;
// equal costs of the quarters are asserted. With -many.publishers 64 each subscription of a group also has a topic, or
// a cursor, for each of 64 streams: that takes longer, and memory (2.2 KB a cursor), but is linear as well.
//
//	go test ./pubsub -run TestMany -v -many 100000 -many.publishers 64
var (
	many           = flag.Int("many", 2000, "subscriptions of TestManySubscriptions, and ten times its patterns")
	manyPublishers = flag.Int("many.publishers", 2, "publishers of TestManySubscriptions")
)

// The cost of one more subscription or pattern does not depend on their number.
func TestManySubscriptions(t *testing.T) {
	for _, fabric := range fabrics[:2] {
		for _, groups := range []int{1, 16} {
			t.Run(fmt.Sprintf("%s/%d", fabric.name, groups), func(t *testing.T) {
				ctx := testContext(t)
				url := inGroups(fabric.url(t), groups)
				b := openBus(t, Config{}, url)
				for i := range *manyPublishers {
					from := openBus(t, Config{}, url)
					for n := 0; i == 0 && n < *many/10; n++ {
						publisher(t, from, fmt.Sprintf("named%d.%[1]d", n)) // matched by the last patterns
					}
					p := publisher(t, from, fmt.Sprintf("topic.%d", i))
					s := subscribe(t, b, fmt.Sprintf("topic.%d", i))
					wait(t, ctx, p, 1)
					publish(t, ctx, p, "x")
					want(t, ctx, s, "x")
					s.Close()
				}
				handler := func(name string) (*Subscription, error) { return b.Handle(name, func(Message, error) {}) }
				reader := func(name string) (*Subscription, error) { return b.Subscribe(name) }
				openAndClose(t, *many, "topic.%d", handler)
				openAndClose(t, *many, "topic.%d", reader)
				openAndClose(t, *many, "topic.0", handler) // all of one topic
				openAndClose(t, *many/10, "other%d.*", handler)
				openAndClose(t, *many/10, "*.%d", handler)
				openAndClose(t, *many/10, "*.%d", reader)
			})
		}
	}
}

func inGroups(url string, groups int) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return fmt.Sprintf("%s%sgroups=%d", url, separator, groups)
}

// openAndClose opens and closes n subscriptions. The name has %d where their number goes.
func openAndClose(t *testing.T, n int, name string, open func(name string) (*Subscription, error)) {
	t.Helper()
	subs := make([]*Subscription, n)
	sameForEach(t, n, name+" opened", func(i int) (err error) {
		subs[i], err = open(strings.ReplaceAll(name, "%d", strconv.Itoa(i)))
		return err
	})
	sameForEach(t, n, name+" closed", func(i int) error { return subs[n-1-i].Close() })
}

// sameForEach calls f n times, and compares the memory and, with enough calls, the processor time of the four
// quarters. With quadratic cost the last quarter takes seven times as much as the first or, for closing, the reverse:
// with -many 100000 a scan of some nanoseconds for each subscription fails.
func sameForEach(t *testing.T, n int, what string, f func(i int) error) {
	t.Helper()
	runtime.GC() // so that earlier garbage is not collected during the measurement
	begun := time.Now()
	var bytes [4]uint64
	var times [4]time.Duration
	for quarter := range bytes {
		before, ran := allocated(), testenv.ProcessorTime()
		for i := quarter * n / 4; i < (quarter+1)*n/4; i++ {
			if err := f(i); err != nil {
				t.Fatal(err)
			}
		}
		bytes[quarter], times[quarter] = allocated()-before, testenv.ProcessorTime()-ran
	}
	t.Logf("%d of %s in %v, of processor time %v", n, what, time.Since(begun), times)
	if bytes[3] > 3*bytes[0]+1<<20 {
		t.Errorf("%d of %s: their quarters took %d bytes", n, what, bytes)
	}
	if first, last := times[0], times[3]; n > 5000 && max(first, last) > 4*min(first, last)+100*time.Millisecond {
		t.Errorf("%d of %s: their quarters took %v of processor time", n, what, times)
	}
}

// With four times as many subscriptions and patterns no statement runs more than about five times as often. A
// quadratic one would run sixteen times as often.
func TestManyAreLinear(t *testing.T) {
	const few, lot = 250, 1000
	dir := t.TempDir()
	worker := filepath.Join(dir, "many.exe")
	const module = "github.com/fanfaremq/fanfare/"
	counted := module + strings.Join([]string{"pubsub", "pubsub/testdata/many", "internal/engine", "internal/pattern", "internal/topics", "internal/ring", "internal/groupmap", "reliable"}, ","+module)
	goTool(t, "build", "-cover", "-covermode=atomic", "-coverpkg="+counted, "-o", worker, "./testdata/many")
	if out, err := exec.Command(worker, dir, strconv.Itoa(few), strconv.Itoa(lot)).CombinedOutput(); err != nil {
		t.Fatalf("running the worker: %v\n%s", err, out)
	}
	var all [2]map[string]int // runs of each statement, by its position
	for i, n := range []int{few, lot} {
		all[i] = make(map[string]int)
		text := filepath.Join(dir, fmt.Sprint(n, ".txt"))
		goTool(t, "tool", "covdata", "textfmt", "-i="+filepath.Join(dir, strconv.Itoa(n)), "-o="+text)
		b, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var at string
			var statements, times int
			if _, err := fmt.Sscan(line, &at, &statements, &times); err == nil {
				all[i][strings.TrimPrefix(at, module)] += times
			}
		}
	}
	if len(all[1]) < 1000 {
		t.Fatalf("%d counted statements, want at least 1000", len(all[1]))
	}
	for at, times := range all[1] {
		if was := all[0][at]; times > 5*was+8*lot {
			t.Errorf("%s ran %d times with %d subscriptions of each kind, and %d times with %d", at, was, few, times, lot)
		}
	}
}

func goTool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(testContext(t), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, out)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// The cost of adding or removing one topic of a subscription does not depend on their number.
func TestManyTopicsOfOne(t *testing.T) {
	url := inGroups(memURL(t), 1)
	b := openBus(t, Config{}, url)
	publisher(t, openBus(t, Config{}, url), "topic.0")
	s := subscribe(t, b, "first")
	topic := func(i int) string { return fmt.Sprintf("topic.%d", i) }
	sameForEach(t, *many, "topics added", func(i int) error { return s.Add(topic(i)) })
	sameForEach(t, *many, "topics removed", func(i int) error { return s.Remove(topic(i)) })
}
