package engine

import "testing"

// One goroutine reads at a time. It waits for a borrower, and no other goroutine can borrow while it reads.
func TestReadersAreClaimedByOne(t *testing.T) {
	var c readerClaim
	if !c.read() {
		t.Fatal("read of an unclaimed claim returned false, want true")
	}
	if c.read() || c.borrow() || c.Take() {
		t.Error("a second claim succeeded, want it refused")
	}
	c.Leave()
	if !c.borrow() || c.borrow() {
		t.Error("want the first borrow to succeed and the second to fail")
	}
	read := make(chan bool)
	go func() { read <- c.read() }() // waits, or runs after giveBack
	c.giveBack()
	if !<-read {
		t.Error("read returned false because of a borrower, want true")
	}
	c.Leave()
	if n := c.borrowed.Load(); n != 0 {
		t.Errorf("%d borrowers at the end, want 0", n)
	}
}
