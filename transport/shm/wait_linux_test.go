package shm

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Before an endpoint sleeps, it checks all lanes again and scans for new endpoints: trains that arrived while it was
// awake have rung no bell. docs/protocol §28.2, §28.8.
func TestCheckBeforeSleep(t *testing.T) {
	a, b, s := pair(t, Config{})
	sleeps := func() bool {
		defer b.EndWait()
		return b.BeginWait(-1) != 0
	}
	awake := func(why string) {
		t.Helper()
		rang := a.rang
		if sleeps() {
			t.Errorf("the endpoint would sleep: %s", why)
		}
		if a.rang != rang {
			t.Errorf("the endpoint's bell rang: %s", why) // then the test proves nothing
		}
	}
	for !sleeps() { // the event of its own join woke the endpoint
	}
	if !sleeps() {
		t.Fatal("it does not sleep although nothing arrived")
	}
	if _, err := s.Send(single([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	awake("a train is waiting")
	fetched := transport.NewBatch(1)
	if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
		t.Fatalf("Poll: %d trains, error %v, want 1", len(fetched.Trains), err)
	}
	b.Release(&fetched.Trains[0])
	if !sleeps() {
		t.Fatal("it does not sleep although everything was fetched")
	}
	c := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
	defer end(c)
	awake("an unconnected endpoint has joined")
	if err := b.Poll(fetched); err != nil {
		t.Fatal(err)
	}
	if !sleeps() {
		t.Fatal("it does not sleep although all are connected")
	}
	b.fabric.suspect.Store(true)
	awake("one may have ended")
}
