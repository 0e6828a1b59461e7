package worker

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func newTestCheck(size int, lossy, all bool) *Check {
	return newCheck(&Spec{Traffic: Traffic{Size: size, CheckAll: all}}, []string{"t"}, lossy, func() {}, new(Report))
}

func messages(size, n int) [][]byte {
	s := NewSource(size)
	var all [][]byte
	for range n - 1 {
		all = append(all, bytes.Clone(s.Next()))
	}
	_, last := s.Last()
	return append(all, bytes.Clone(last))
}

// Messages from a source pass the check, in every size, written by Next or by Fill.
func TestCheckAcceptsSource(t *testing.T) {
	for _, size := range []int{MinSize, 32, 64, 100, 1024, 65536} {
		for _, all := range []bool{false, true} {
			c := newTestCheck(size, false, all)
			const n = 300
			for _, m := range messages(size, n) {
				c.Message(m)
			}
			r := c.finish()
			if r.Bad > 0 || r.Messages != n || r.Lost != 0 || !c.Done() || r.Timed != n || r.End < r.Start || r.Start == 0 {
				t.Errorf("messages of %d bytes: report %+v, done %t, want %d messages, none lost, all timed, and done", size, r, c.Done(), n)
			}
			next, fill := NewSource(size), NewSource(size)
			b := make([]byte, 3*(4+size)+3+size) // room for three messages and a part
			for i := range 96 {
				if i%3 == 0 {
					if n := fill.Fill(b); n != 3*(4+size) {
						t.Fatalf("%d bytes: Fill took %d bytes, want %d", size, n, 3*(4+size))
					}
				}
				want := next.Next()
				got := b[i%3*(4+size):]
				if n := binary.LittleEndian.Uint32(got); int(n) != size || !bytes.Equal(got[4:4+size], want) {
					t.Fatalf("%d bytes: message %d of Fill and Next differ", size, i)
				}
			}
			_, a := next.Last()
			if _, b := fill.Last(); !bytes.Equal(a, b) {
				t.Fatalf("%d bytes: Last after Fill and Next differ", size)
			}
			if next.next != 97 || fill.next != 97 {
				t.Fatalf("%d bytes: sent %d and %d, want 97 each", size, next.next, fill.next)
			}
		}
	}
}

// Every error is detected.
func TestCheckDetects(t *testing.T) {
	const size, n, at = 64, 300, 130 // 130 is not sampled
	for _, c := range []struct {
		name     string
		all      bool
		spoil    func(m [][]byte) [][]byte
		wantText string
	}{
		{"number", false, func(m [][]byte) [][]byte { m[at][0] ^= 8; return m }, "message"},
		{"tail", false, func(m [][]byte) [][]byte { m[at][size-1] ^= 1; return m }, "wrong content"},
		{"filler of a sample", false, func(m [][]byte) [][]byte { m[128][20] ^= 1; return m }, "message 128 on topic t has the wrong content"},
		{"filler of any", true, func(m [][]byte) [][]byte { m[at][20] ^= 1; return m }, "message 130 on topic t has the wrong content"},
		{"twice", false, func(m [][]byte) [][]byte { return append(m[:at+1:at+1], m[at:]...) }, "message 130 on topic t received twice"},
		{"swapped", false, func(m [][]byte) [][]byte { m[at], m[at+1] = m[at+1], m[at]; return m }, "message 131 on topic t received instead of message 130"},
		{"missing", false, func(m [][]byte) [][]byte { return append(m[:at:at], m[at+1:]...) }, "message 131 on topic t received instead of message 130"},
		{"cut", false, func(m [][]byte) [][]byte { m[at] = m[at][:40]; return m }, "on topic t has 40 bytes, not 64"},
		{"empty", false, func(m [][]byte) [][]byte { m[at] = nil; return m }, "has 0 bytes"},
		{"two halves", false, func(m [][]byte) [][]byte { copy(m[at][32:], m[at+1][32:]); return m }, "wrong content"},
	} {
		check := newTestCheck(size, false, c.all)
		for _, m := range c.spoil(messages(size, n)) {
			check.Message(m)
		}
		r := check.finish()
		if r.Bad == 0 || !strings.Contains(r.Fault, c.wantText) {
			t.Errorf("%s: %d faults, the first %q; want one with %q", c.name, r.Bad, r.Fault, c.wantText)
		}
	}
}

// In a lossy stream messages may be missing, which is counted; all other errors count.
func TestCheckLossy(t *testing.T) {
	c := newTestCheck(64, true, false)
	all := messages(64, 300)
	for i, m := range all {
		if i < 10 || i >= 20 && i != 100 {
			c.Message(m)
		}
	}
	r := c.finish()
	if r.Bad > 0 || r.Lost != 11 || r.Gaps != 2 || r.Messages != 289 || !c.Done() {
		t.Errorf("report %+v, done %t, want 289 messages, 11 lost in 2 gaps, and done", r, c.Done())
	}
	if c.Message(all[5]); c.report.Bad != 1 {
		t.Error("a message received twice is accepted")
	}
}

// Reported gaps are no errors at the right position.
func TestCheckGap(t *testing.T) {
	c := newTestCheck(64, false, false)
	all := messages(64, 300)
	for _, m := range all[:70] {
		c.Message(m)
	}
	c.Gap("t", 70, 10)
	for _, m := range all[80:] {
		c.Message(m)
	}
	if r := c.finish(); r.Bad > 0 || r.Lost != 10 || r.Gaps != 1 || r.Messages != 290 {
		t.Errorf("report %+v, want 290 messages, 10 lost in 1 gap", r)
	}
	if c.Gap("t", 7, 1); c.report.Bad != 1 {
		t.Error("a gap at the wrong number is accepted")
	}
}

// Neither side's work on a message allocates.
func TestAllocs(t *testing.T) {
	s, c := NewSource(64), newTestCheck(64, false, false)
	if n := testing.AllocsPerRun(10_000, func() { c.Message(s.Next()) }); n != 0 {
		t.Errorf("%v allocations a message, want none", n)
	}
}

// Batches contain the messages that Next would return, up to the last one.
func TestBatches(t *testing.T) {
	for _, batch := range []int{1, 2, 16, 256} {
		s, c := newSource(64, batch, nil), newTestCheck(64, false, false)
		for range 20 {
			msgs := s.Batch()
			if len(msgs) != batch {
				t.Fatalf("%d messages, want %d", len(msgs), batch)
			}
			for _, m := range msgs {
				c.Message(m)
			}
		}
		_, last := s.Last()
		c.Message(last)
		if n := uint64(20*batch + 1); c.received != n || s.next != n || !c.Done() || c.report.Bad > 0 {
			t.Errorf("batches of %d: %d received, %d sent, done %v, want %d and done: %s", batch, c.received, s.next, c.Done(), n, c.report.Fault)
		}
	}
}
