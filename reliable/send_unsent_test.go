package reliable

import "testing"

// Appended messages that were not sent are counted, at any stage. docs/protocol §11.1.
func TestUnsentMessages(t *testing.T) {
	b := newBench(t, nil)
	x, y := b.topic("x"), b.topic("y")
	b.s.Grant(b.w)
	check := func(when string, want uint64) {
		t.Helper()
		if n := b.s.UnsentMessages() + b.w.UnsentMessages(); n != want {
			t.Errorf("%s: %d messages, want %d", when, n, want)
		}
	}
	check("nothing", 0)
	for range 3 {
		b.put(x, 10)
	}
	b.put(y, 0)
	b.put(x, 10)
	check("in the open packet", 5)
	b.put(y, 400) // in the next packet
	check("in two packets", 6)
	b.s.Assign(b.now, b.w, true)
	if n := b.w.UnsentMessages(); n != 0 {
		t.Errorf("%d messages remain in the writer", n)
	}
	check("with sequences", 6)
	b.next()
	check("sent", 0)
	b.s.Grant(b.w)
	msg := make([]byte, 600)
	at := b.w.AppendFragment(x, msg, 0, 0)
	check("a fragment", 0)
	if at = b.w.AppendFragment(x, msg, at, 0); at < len(msg) {
		t.Fatalf("%d bytes of %d were written", at, len(msg))
	}
	check("the last one", 1)
	b.s.Assign(b.now, b.w, true)
	check("with its sequence", 1)
	b.next()
	check("sent, too", 0)
}
