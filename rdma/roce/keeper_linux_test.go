package roce

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The keeper ends when it is told to, also where its grace is over by the time it
// looks: being told wakes it once.
func TestKeeperEnds(t *testing.T) {
	for range 50 {
		k := &keeper{quit: make(chan struct{})} // without grace
		var err error
		if k.poll, err = newPoller(); err != nil {
			t.Fatal(err)
		}
		if err := k.sig.open(); err != nil {
			t.Fatal(err)
		}
		if err := k.poll.add(k.sig.fd, 0, unix.EPOLLIN|unix.EPOLLET); err != nil {
			t.Fatal(err)
		}
		k.done.Add(1)
		go k.run(new(device))
		k.stop() // hangs if the keeper does
	}
}
