package shm

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Before it sleeps, an endpoint checks all lanes once more, and for new endpoints: what arrived while
// it was awake has rung no bell. docs/protocol §28.2, §28.8.
func TestLookBeforeSleep(t *testing.T) {
	a, b, s := pair(t, Config{})
	sleeps := func() bool {
		defer b.EndWait()
		return b.BeginWait(-1) != 0
	}
	awake := func(why string) {
		t.Helper()
		rang := a.rang
		if sleeps() {
			t.Errorf("it would sleep: %s", why)
		}
		if a.rang != rang {
			t.Errorf("its bell was rung: %s", why) // and the test shows nothing
		}
	}
	for !sleeps() { // it was woken to hear of its own join
	}
	if !sleeps() {
		t.Fatal("it does not sleep when nothing has come")
	}
	if _, err := s.Send(single([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	awake("a train waits")
	fetched := transport.NewBatch(1)
	if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
		t.Fatal(len(fetched.Trains), err)
	}
	b.Release(&fetched.Trains[0])
	if !sleeps() {
		t.Fatal("it does not sleep when all was fetched")
	}
	c := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
	defer end(c)
	awake("an endpoint has joined that it does not know")
	if err := b.Poll(fetched); err != nil {
		t.Fatal(err)
	}
	if !sleeps() {
		t.Fatal("it does not sleep when all are met")
	}
	b.fabric.suspect.Store(true)
	awake("one may have ended")
}
