package transporttest

import (
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// A round of Polls ends when everything is read that had arrived when it began, not before, and even while packets
// arrive faster than they are read (transport.Batch.More).
func testRounds(t *testing.T, f *fabric) {
	if f.open.Delays {
		return
	}
	a, b, witness := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	for _, e := range []*endpoint{b, witness} {
		e.join(0, 1)
	}
	senders := []transport.Sender{a.firstSender(0), a.firstSender(1)}
	size := min(a.Capabilities().PacketSize, 1000)
	sent := 0
	send := func(n int) {
		for range n {
			out, _ := train(uint64(sent), size, size)
			if _, err := senders[sent%2].Send(out); err != nil && !errors.Is(err, transport.ErrBusy) {
				t.Fatal(err)
			}
			sent++
		}
	}
	round := func(during int) int {
		limit := time.Now().Add(testTimeout)
		for more := true; more; more = b.batch.More {
			if b.poll(); time.Now().After(limit) {
				t.Fatal("a round does not end")
			}
			send(during)
		}
		return len(b.got)
	}
	b.batch = transport.NewBatch(2)
	n := min(40, b.Capabilities().ReceiveCapacity)
	// On some fabrics delivery to one receiver may be later than to another.
	for limit := time.Now().Add(testTimeout); ; {
		f.until(t, "no packet arrives", func() bool { return a.poll()+b.poll()+witness.poll() == 0 && !b.batch.More })
		b.got, witness.got = nil, nil
		send(n)
		for len(witness.got) < n && time.Now().Before(limit) {
			a.poll()
			witness.poll()
		}
		if got := round(0); got == n {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("a round ended after %d packets of %d", got, n)
		}
	}
	send(n)
	round(4) // a Poll reads 2
}
