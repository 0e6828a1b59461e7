package wire

import (
	"encoding/binary"
	"testing"
)

// Data.Step is set for packets with one run of messages of one length, with any padding, and for no others: a reader
// uses it for the run that it begins. docs/protocol §2.11.
func TestStepOfOnlyRun(t *testing.T) {
	run := func(sizes ...int) []byte {
		body := []byte{}
		for _, n := range sizes {
			body = append(binary.LittleEndian.AppendUint16(body, uint16(n)), make([]byte, n)...)
		}
		b := make([]byte, RunHeaderLen, RunHeaderLen+len(body))
		PutRunHeader(b, RunMessages, len(body), 7, 0)
		return append(b, body...)
	}
	fragment := make([]byte, RunHeaderLen+FragmentHeaderLen+5)
	PutRunHeader(fragment, RunFragment, FragmentHeaderLen+5, 7, 0)
	PutFragmentHeader(fragment[RunHeaderLen:], 10, 0)
	topic := make([]byte, RunHeaderLen+1)
	PutTopicRun(topic, 7, "x")
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for _, c := range []struct {
		name string
		runs []byte
		want int
	}{
		{"one message", run(64), 66},
		{"messages of one length", run(64, 64, 64), 66},
		{"and padding", join(run(64, 64), make([]byte, 30)), 66},
		{"empty messages", run(0, 0), 2},
		{"other lengths", run(64, 63), 0},
		{"no message", run(), 0},
		{"two runs", join(run(64, 64), run(64)), 0},
		{"two runs, the first of other lengths", join(run(64, 63), run(64)), 0},
		{"a name before it", join(topic, run(64)), 0},
		{"a fragment after it", join(run(64), fragment), 0},
		{"a fragment", fragment, 0},
		{"nothing", nil, 0},
	} {
		b := append(make([]byte, DataHeaderLen), c.runs...)
		PutDataHeader(b, Header{Publisher: 1, Epoch: 1}, 1472)
		d, err := ParseData(b)
		if err != nil || d.Step != c.want {
			t.Errorf("%s: step %d, %v, want %d", c.name, d.Step, err, c.want)
		}
	}
}

// A packet begins with a head if every byte of the head is the same. docs/protocol §2.1.
func TestBegins(t *testing.T) {
	var head [HeaderLen]byte
	for i := range head {
		head[i] = byte(i * 7)
	}
	b := append(head[:], 1, 2, 3)
	if !Begins(b, &head) {
		t.Error("a packet does not begin with its own head")
	}
	for i := range head {
		other := append([]byte(nil), b...)
		if other[i] ^= 1 << (i % 8); Begins(other, &head) {
			t.Errorf("a different byte %d is not detected", i)
		}
	}
}
