package pubsub

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// wildProcess is an environment variable with a URL, the number of topics, of rounds, and an index. With it the test
// binary runs as a subscriber of TestWildcardProcesses.
const wildProcess = "FANFARE_TEST_WILDCARD"

const wildGroups, wildSubs, wildProcesses = 64, 100, 3

func wildNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("md.x%d.%c.s%d", i%20, 'A'+i%7, i)
	}
	return names
}

// wild is one subscription and its messages.
type wild struct {
	patterns []pattern.Pattern
	mu       sync.Mutex
	next     map[string]uint64 // next number, by topic
	got      int
}

func (w *wild) matches(topic string) bool {
	return slices.ContainsFunc(w.patterns, func(p pattern.Pattern) bool { return p.Match(topic) })
}

func (w *wild) take(t *testing.T, m Message, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		t.Error(err)
	case !w.matches(m.Topic):
		t.Errorf("patterns %v received a message of %s", w.patterns, m.Topic)
	case m.Number != w.next[m.Topic]:
		t.Errorf("patterns %v received message %d of %s, want %d", w.patterns, m.Number, m.Topic, w.next[m.Topic])
	case string(m.Data) != m.Topic:
		t.Errorf("message of %s holds %q, want its topic", m.Topic, m.Data)
	}
	w.next[m.Topic] = m.Number + 1
	w.got++
}

// 10,000 topics on 64 groups, 100 wildcard subscriptions in three processes over UDP: every
// message reaches exactly its subscribers, and each process joins each of the 64 groups once.
func TestWildcardProcesses(t *testing.T) {
	testenv.Slow(t)
	if spec := os.Getenv(wildProcess); spec != "" {
		wildSubscriber(t, strings.Fields(spec))
		return
	}
	topics, rounds := 10_000, 2
	if testing.Short() {
		topics = 1000
	}
	ctx := testContext(t)
	url := udpURL(t) + fmt.Sprintf("&groups=%d", wildGroups)
	var ends []func() error
	for i := range wildProcesses {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWildcardProcesses$", "-test.count=1")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", wildProcess, url, topics, rounds, i))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("process %d prints %q, want ready", i, lines.Text())
		}
		ends = append(ends, func() error {
			var text strings.Builder
			for lines.Scan() {
				fmt.Fprintln(&text, lines.Text())
			}
			_, _ = io.Copy(io.Discard, out)
			err := cmd.Wait()
			t.Logf("output of process %d: %s", i, text.String())
			return err
		})
	}
	bus := openBus(t, Config{}, url)
	names := wildNames(topics)
	pubs, seen := make([]*Publisher, topics), make(map[int]bool)
	for i, name := range names {
		pubs[i] = publisher(t, bus, name)
	}
	for i, name := range names { // one publisher of each group waits for subscribers
		if g := bus.Group(name); !seen[g] {
			seen[g] = true
			wait(t, ctx, pubs[i], wildProcesses)
		}
	}
	for range rounds {
		for i, p := range pubs {
			publish(t, ctx, p, names[i])
		}
	}
	for _, p := range pubs {
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i, end := range ends {
		if err := end(); err != nil {
			t.Errorf("process %d ended: %v", i, err)
		}
	}
}

// wildSubscriber runs one of the processes.
func wildSubscriber(t *testing.T, spec []string) {
	ctx := testContext(t)
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(spec[1+i]); err != nil {
			t.Fatal(err)
		}
	}
	topics, rounds, index := n[0], n[1], n[2]
	b := openBus(t, Config{}, spec[0])
	r := rand.New(rand.NewPCG(1, uint64(index)))
	draw := func() string {
		parts := []string{"md", fmt.Sprint("x", r.IntN(20)), string(rune('A' + r.IntN(7)))}
		for i := range parts {
			if r.IntN(3) == 0 {
				parts[i] = "*"
			}
		}
		return strings.Join(append(parts, []string{"*", ">"}[r.IntN(2)]), ".")
	}
	var all []*wild
	for i := index; i < wildSubs; i += wildProcesses {
		w := &wild{next: make(map[string]uint64)}
		texts := []string{draw(), draw()}[:1+r.IntN(2)]
		for _, text := range texts {
			p, err := pattern.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			w.patterns = append(w.patterns, p)
		}
		if i%2 == 0 {
			if _, err := b.Handle(texts[0], func(m Message, err error) { w.take(t, m, err) }, Topics(texts...)); err != nil {
				t.Fatal(err)
			}
		} else {
			sub := subscribe(t, b, texts[0], Topics(texts...))
			go func() {
				for m, err := range sub.Messages(context.Background()) {
					w.take(t, m, err)
				}
			}()
		}
		all = append(all, w)
	}
	fmt.Println("ready")
	names, total := wildNames(topics), 0
	for _, w := range all {
		want := 0
		for _, name := range names {
			if w.matches(name) {
				want += rounds
			}
		}
		for got := -1; got < want; {
			w.mu.Lock()
			got = w.got
			w.mu.Unlock()
			if got > want || ctx.Err() != nil {
				t.Fatalf("%v got %d messages of %d", w.patterns, got, want)
			}
			time.Sleep(time.Millisecond)
		}
		total += want
	}
	groups := b.Stats().Groups
	fmt.Printf("%d subscriptions got %d messages, %d groups are joined\n", len(all), total, len(groups))
	joined := make(map[string]bool)
	for _, g := range groups {
		if joined[g.Address] {
			t.Errorf("group %s is joined twice", g.Address)
		}
		joined[g.Address] = true
	}
	if len(joined) != wildGroups { // a matching topic can be in any of them
		t.Errorf("%d groups are joined, want %d", len(joined), wildGroups)
	}
}
