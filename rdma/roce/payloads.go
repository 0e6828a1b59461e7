package roce

import (
	"iter"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// Port is the UDP port of RoCEv2.
const Port = rocev2.Port

// Payloads yields the payload of each Unreliable Datagram in b, which is what follows a UDP
// header in a capture, or why it is none. It is one datagram, or a train of several that a
// host with segmentation offload hands to captures in one piece. The ICRC is not looked at.
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

// datagramBytes is the length of the first datagram of a train.
func datagramBytes(b []byte) int {
	for n := rocev2.MinBytes; n+rocev2.MinBytes <= len(b) && n <= rocev2.MaxBytes; n += 4 {
		if rocev2.Follows(b, b[n:]) {
			return n
		}
	}
	return len(b)
}
