package roce

import (
	"iter"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// Port is the UDP port of RoCEv2.
const Port = rocev2.Port

// Payloads yields the payload, or an error, of each Unreliable Datagram in b, which is the content of a UDP datagram in
// a capture: one datagram, or a train of several, if the capture was made on a host with segmentation offload. It does
// not check the ICRC.
func Payloads(b []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(b) > 0 {
			n := datagramBytes(b)
			var h rocev2.Header
			if payload, err := h.Parse(b[:n]); !yield(payload, err) {
				return
			}
			b = b[n:]
		}
	}
}

// datagramBytes returns the length of the first datagram of a train.
func datagramBytes(b []byte) int {
	for n := rocev2.MinBytes; n+rocev2.MinBytes <= len(b) && n <= rocev2.MaxBytes; n += 4 {
		if rocev2.Follows(b, b[n:]) {
			return n
		}
	}
	return len(b)
}
