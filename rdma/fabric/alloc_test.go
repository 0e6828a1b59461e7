package fabric

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// Posting, forwarding, delivering and polling do not allocate.
func TestDataPathDoesNotAllocate(t *testing.T) {
	f := New(Config{Faults: Faults{Jitter: 10}, Latency: 5})
	defer f.Close()
	a, b := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := a.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	b.join(testGroup(1), rdma.JoinFullMember)
	const batch = 8
	sends, recvs := make([]rdma.SendWR, batch), make([]rdma.RecvWR, batch)
	for i := range batch {
		sends[i], recvs[i] = a.sendWR(ah, "zero"), b.recvWR(i)
		if i < batch-1 {
			sends[i].Flags = rdma.SendInline
		}
	}
	got := 0
	round := func() {
		if _, err := b.qp.PostRecv(recvs); err != nil {
			t.Fatal(err)
		}
		if _, err := a.qp.PostSend(sends); err != nil {
			t.Fatal(err)
		}
		f.AdvanceTo(f.Now() + 100)
		if len(a.poll()) != 1 {
			t.Fatal("no completion")
		}
		got += len(b.poll())
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations per round of %d messages, want none", n, batch)
	}
	if got != 102*batch {
		t.Errorf("%d messages delivered, want %d", got, 102*batch)
	}
}

func BenchmarkSendReceive(b *testing.B) {
	f := New(Config{})
	defer f.Close()
	from, to := newPeer(b, f.AddHost(HostConfig{})), newPeer(b, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	sends, recvs := []rdma.SendWR{from.sendWR(ah, string(make([]byte, 1024)))}, []rdma.RecvWR{to.recvWR(0)}
	b.SetBytes(1024)
	for b.Loop() {
		if _, err := to.qp.PostRecv(recvs); err != nil {
			b.Fatal(err)
		}
		if _, err := from.qp.PostSend(sends); err != nil {
			b.Fatal(err)
		}
		f.AdvanceTo(f.Now() + 1)
		from.poll()
		if len(to.poll()) != 1 {
			b.Fatal("the message is lost")
		}
	}
}
