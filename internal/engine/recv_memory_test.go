package engine

import "testing"

func TestReceiveMemory(t *testing.T) {
	var m receiveMemory
	m.prepare(100)
	ready := &m.spare[0]
	m.prepare(50)
	p, err := m.Alloc(80, false)
	if err != nil || len(p) != 80 || cap(p) != 80 || &p[0] != ready {
		t.Fatalf("Alloc returned %d bytes, capacity %d, error %v, want 80 prepared bytes", len(p), cap(p), err)
	}
	m.Free(p) // not reused, because a reader may still use it
	seen := map[*byte]bool{ready: true}
	for _, n := range []int{15, 10, 5, 80, 200} {
		q, err := m.Alloc(n, true)
		if err != nil || len(q) != n || cap(q) != n || seen[&q[0]] {
			t.Errorf("Alloc(%d) returned %d bytes, capacity %d, error %v, want %d new bytes", n, len(q), cap(q), err, n)
		}
		seen[&q[0]] = true
	}
}

// The window of the first stream is allocated before its packets come.
func TestWindowIsReady(t *testing.T) {
	_, l := newLoop(t, Config{})
	l.cfg.Receiver.WindowBytes = 1 << 20
	subscribeTo(t, l, TopicName{Name: "x"}, policyAuto, nil)
	ready := 0
	if err := l.do(func() { ready = len(l.memory.spare) }); err != nil || ready != 1<<20 {
		t.Errorf("%d bytes are prepared (%v), want %d", ready, err, 1<<20)
	}
}
