package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// Each of many subscriptions of a group delivers all messages of its topics in order, whichever cursors are parked.
// Unread subscriptions to topics without messages do not block the publisher.
func TestManySubscriptionsOfAGroup(t *testing.T) {
	testenv.Slow(t)
	const named, readers, idle, messages = 20, 60, 200, 20_000
	open := func() *Loop {
		tr, err := mem.Open(mem.Config{Name: t.Name(), Groups: 1})
		if err != nil {
			t.Fatal(err)
		}
		return start(tr, Config{MaxMessage: 1 << 10, Receiver: reliable.ReceiverConfig{WindowBytes: 256 << 10}})
	}
	pub, sub := open(), open()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	schedule := make([]int, messages)
	var count [named]uint64
	for i := range schedule {
		schedule[i] = rng.IntN(named) * rng.IntN(2) // half of them on topic 0
		count[schedule[i]]++
	}
	name := func(i int) TopicName { return TopicName{Name: fmt.Sprintf("topic.%d", i)} }
	var wg sync.WaitGroup
	for i := range readers {
		first, second := i%named, (i*7+1)%named
		want := map[string]uint64{name(first).Name: count[first], name(second).Name: count[second]}
		s, err := sub.Subscribe([]TopicName{name(first), name(second)}, policyBlock, From{}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			left := 0
			for _, n := range want {
				left += int(n)
			}
			next := make(map[string]uint64)
			for ; left > 0; left-- {
				var d Delivery
				if err := s.Next(ctx, &d); err != nil {
					t.Errorf("reader %d, %d messages left: Next returned %v, want nil", i, left, err)
					return
				}
				if d.Event != nil {
					left++ // on a loaded host the publisher may be silent for too long
					continue
				}
				if d.Err != nil || d.Gap() || d.Number != next[d.Topic.Name] || binary.LittleEndian.Uint64(d.Data) != d.Number {
					t.Errorf("reader %d: item %+v, want message %d", i, d.Item, next[d.Topic.Name])
					return
				}
				next[d.Topic.Name]++
			}
		}()
	}
	for i := range idle {
		subscribeTo(t, sub, TopicName{Name: fmt.Sprintf("idle.%d", i)}, policyBlock, nil)
	}
	p, err := pub.Publication(0)
	if err != nil {
		t.Fatal(err)
	}
	var ts [named]*topics.Topic
	for i := range ts {
		if ts[i], err = p.Topic(name(i).Name); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.WaitReceivers(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	var number [named]uint64
	for _, i := range schedule {
		msg := binary.LittleEndian.AppendUint64(make([]byte, 0, 100), number[i])[:100]
		number[i]++
		if err := p.Publish(ctx, ts[i], msg, true); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(100) == 0 {
			time.Sleep(time.Duration(rng.IntN(50)) * time.Microsecond) // cursors park meanwhile
		}
	}
	wg.Wait()
	parked := 0
	if err := sub.do(func() {
		for range 1000 {
			if sub.groups[0].tendFeeds(sub.now()); len(sub.groups[0].counting) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		parked = sub.groups[0].subs.Len() - len(sub.groups[0].counting)
	}); err != nil {
		t.Fatal(err)
	}
	if parked < idle {
		t.Errorf("%d of %d subscriptions are parked, want at least %d", parked, readers+idle, idle)
	}
	for _, l := range []*Loop{pub, sub} {
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close returned %v, want nil", err)
		}
	}
}

// An abandoned cursor may have blocked its stream, so the loop resumes the stream without waiting for another wake-up.
func TestDisconnectResumes(t *testing.T) {
	_, pub := newLoop(t, Config{})
	_, sub := newLoop(t, Config{})
	s := subscribeTo(t, sub, TopicName{Name: "x", Group: 0}, policyBlock, nil)
	p, topic := publication(t, pub, "x")
	ctx := t.Context()
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, topic, []byte("a"), true); err != nil {
		t.Fatal(err)
	}
	var d Delivery
	if err := s.Next(ctx, &d); err != nil {
		t.Fatal(err)
	}
	if err := sub.do(func() {
		g, f := sub.groups[0], (*s.feeds.Load())[0]
		g.count(f)
		f.done.Store(true)
		sub.commands.resume.Store(false)
		sub.sleeper.kick.Store(false)
		g.tendFeeds(sub.now())
		if !sub.commands.resume.Load() || !sub.sleeper.kick.Load() {
			t.Error("the loop is not woken to resume the stream, want it woken")
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// An index round without a loss before it wakes no cursor: nothing makes the application read a silent topic.
func TestIndexRoundWakesNoCursor(t *testing.T) {
	_, there := newLoop(t, Config{})
	p, topic := publication(t, there, "x")
	if _, err := p.Topic("silent"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.Publish(ctx, topic, nil, true); err != nil {
		t.Fatal(err)
	}
	_, l := newLoop(t, Config{})
	s := subscribeTo(t, l, TopicName{Name: "silent"}, policyBlock, nil)
	named, parked := false, false
	for ; !named && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		l.do(func() {
			for _, f := range *s.feeds.Load() {
				named, parked = f.o.in.Relevant(), f.c.Parked()
			}
		})
	}
	if !named || !parked {
		t.Errorf("the topic is named: %v, the cursor is parked: %v, want both", named, parked)
	}
}
