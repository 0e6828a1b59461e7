package roce

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// The keeper ends after stop, even if its grace period has ended when it checks, because stop wakes it only once.
func TestKeeperEnds(t *testing.T) {
	for range 50 {
		k := &keeper{quit: make(chan struct{})} // without grace
		var err error
		if k.poll, err = sys.NewPoller(); err != nil {
			t.Fatal(err)
		}
		if k.sig, err = sys.NewSignal(k.poll, 0); err != nil {
			t.Fatal(err)
		}
		k.done.Add(1)
		go k.run(new(device))
		k.stop() // it hangs if the keeper does not end
	}
}
