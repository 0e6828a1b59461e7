package shm

import (
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Subscribers that read in place are stopped at any time, even within a message, and continued,
// while a publisher without flow control overwrites its window: their data is never overwritten,
// and missed messages are reported. docs/protocol §28.5.
func TestStopped(t *testing.T) {
	testenv.Slow(t)
	stops := howMany(t, 40)
	rng := seeded(t)
	url := "shm://stopped?dir=" + scratch(t)
	c := config
	c.FlowControl = pubsub.FlowNone
	bus, err := c.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	subs := []*process{start(t, "handle", url), start(t, "handle", url)}
	defer func() {
		for _, p := range subs {
			p.end()
		}
	}()
	pub, err := bus.Publisher(topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(t.Context(), len(subs)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	published := make(chan error, 1)
	random := rand.New(rand.NewPCG(rng.Uint64(), 1))
	go func() { published <- publishUntil(ctx, bus, random) }()
	for range stops {
		p := subs[rng.IntN(len(subs))]
		p.signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		p.signal(syscall.SIGCONT)
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
	reported := func() bool { return strings.Contains(subs[0].output.String()+subs[1].output.String(), overtaken) }
	// On a busy host the publisher may need longer to overwrite its window.
	for began, rest := time.Now(), 100*time.Millisecond; !reported(); rest *= 2 {
		if time.Since(began) > waitTimeout {
			t.Fatal("no subscriber was overtaken: the test has no result")
		}
		subs[0].signal(syscall.SIGSTOP)
		time.Sleep(rest)
		subs[0].signal(syscall.SIGCONT)
		for range 1000 { // the report may take as long
			if reported() {
				break
			}
			time.Sleep(rest / 1000)
		}
	}
	stop()
	if err := <-published; err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	for _, p := range subs {
		p.signal(syscall.SIGKILL)
		p.killed(t)
	}
}
