package driver

import "testing"

func TestReceiveMemory(t *testing.T) {
	var m receiveMemory
	m.prepare(100)
	ready := &m.spare[0]
	m.prepare(50)
	p, err := m.Alloc(80)
	if err != nil || len(p) != 80 || cap(p) != 80 || &p[0] != ready {
		t.Fatalf("%d bytes (room for %d), %v: not what was ready", len(p), cap(p), err)
	}
	m.Free(p) // somebody may still look at it
	for _, n := range []int{80, 200} {
		if q, err := m.Alloc(n); err != nil || len(q) != n || &q[0] == ready {
			t.Errorf("%d bytes, %v", len(q), err)
		}
	}
	m.prepare(100)
	if q, err := m.Alloc(49); err != nil || len(q) != 49 || m.spare == nil {
		t.Errorf("%d bytes of what was ready for 100 are taken, %v", len(q), err)
	}
	if q, err := m.Alloc(200); err != nil || len(q) != 200 || m.spare == nil {
		t.Errorf("%d bytes, %v", len(q), err)
	}
}

// The window of the first stream is there before its packets are.
func TestWindowIsReady(t *testing.T) {
	_, l := newLoop(t, Config{})
	l.cfg.Receiver.WindowBytes = 1 << 20
	if _, err := l.Subscribe([]TopicName{{Name: "x"}}, PolicyAuto, false, nil); err != nil {
		t.Fatal(err)
	}
	ready := 0
	if err := l.do(func() { ready = len(l.memory.spare) }); err != nil || ready != 1<<20 {
		t.Errorf("%d bytes are ready, %v", ready, err)
	}
}
