package driver

import "testing"

func TestGoroutineID(t *testing.T) {
	own := goroutineID()
	other := make(chan uint64)
	go func() { other <- goroutineID() }()
	if n := <-other; own == 0 || n == 0 || n == own || own != goroutineID() {
		t.Errorf("own %d, then %d; another's %d", own, goroutineID(), n)
	}
}
