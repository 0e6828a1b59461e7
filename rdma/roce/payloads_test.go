package roce

import (
	"bytes"
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// Payloads yields the datagrams of a train one by one, and an error for an invalid one.
func TestPayloads(t *testing.T) {
	var train []byte
	want := [][]byte{[]byte("hello"), bytes.Repeat([]byte{7}, 5), []byte("x")}
	for i, payload := range want {
		h := rocev2.Header{PKey: 0xffff, DestQPN: 0xffffff, PSN: (0xffffff + uint32(i)) & 0xffffff, SrcQPN: 17, HasImm: i == 2}
		b := make([]byte, h.Size(len(payload)))
		copy(h.Put(b, len(payload)), payload)
		train = append(train, b...)
	}
	n := 0
	for payload, err := range Payloads(train) {
		if err != nil || !bytes.Equal(payload, want[n]) {
			t.Errorf("datagram %d holds %q, error %v, want %q", n, payload, err, want[n])
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d datagrams, want %d", n, len(want))
	}
	for _, err := range Payloads(train[:10]) {
		if n++; !errors.Is(err, rocev2.ErrShort) {
			t.Error(err)
		}
	}
	for range Payloads(train) {
		n++
		break
	}
	for range Payloads(nil) {
		t.Error("no bytes yield a datagram")
	}
	if n != len(want)+2 {
		t.Errorf("%d datagrams, want %d", n, len(want)+2)
	}
}
