package engine

import "testing"

// One goroutine reads at a time. It waits for a borrower, and nothing can be borrowed while it reads.
func TestReadersAreClaimedByOne(t *testing.T) {
	var c readerClaim
	if !c.read() {
		t.Fatal("it is free, and cannot be read")
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
		t.Error("a reader is refused because of a borrower")
	}
	c.Leave()
	if n := c.borrowed.Load(); n != 0 {
		t.Errorf("%d have borrowed in the end", n)
	}
}
