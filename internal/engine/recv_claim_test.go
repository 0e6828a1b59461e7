package engine

import "testing"

// One goroutine reads; who borrows is waited for, and borrows nothing from one who reads.
func TestReadersAreClaimedByOne(t *testing.T) {
	var c readerClaim
	if !c.read() {
		t.Fatal("nobody reads, and it cannot be read")
	}
	if c.read() || c.borrow() || c.Take() {
		t.Error("claimed a second time")
	}
	c.Leave()
	if !c.borrow() || c.borrow() {
		t.Error("not borrowed once")
	}
	read := make(chan bool)
	go func() { read <- c.read() }() // waits, or comes later
	c.giveBack()
	if !<-read {
		t.Error("who reads is refused because somebody has borrowed")
	}
	c.Leave()
	if n := c.borrowed.Load(); n != 0 {
		t.Errorf("%d have borrowed in the end", n)
	}
}
