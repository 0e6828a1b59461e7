// Package train cuts an Outbound into runs: packets that a fabric can carry as one train. It does no I/O, so that it
// can be tested without a socket.
//
// A run is a sequence of packets of one size, of which only the last may be shorter. That is what UDP_SEGMENT sends in
// one call (udp(7)) and what a Train describes on the receiving side.
package train

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/transport"
)

// ErrEmptyPacket refuses a packet without bytes: a train cannot represent it.
var ErrEmptyPacket = errors.New("transport: packet has no bytes")

// Run is the result of Next.
type Run struct {
	Count int // packets
	Size  int // bytes of every packet but the last
	Bytes int // bytes of all packets together
}

// Check finds errors of an Outbound as a whole: they are bugs of the caller, but must not cause reads of other memory.
func Check(out *transport.Outbound) error {
	if out.Count < 0 || out.Count > len(out.Lens) {
		return fmt.Errorf("transport: train of %d packets has %d lengths", out.Count, len(out.Lens))
	}
	if out.Count > 1 && out.Stride <= 0 {
		return fmt.Errorf("transport: train has a stride of %d bytes", out.Stride)
	}
	if n := out.Count; n > 0 && (n-1)*out.Stride+int(out.Lens[n-1]) > len(out.Data) {
		return fmt.Errorf("transport: train of %d packets, stride %d, reaches past its %d bytes of data", n, out.Stride, len(out.Data))
	}
	return nil
}

// Next returns the longest run that begins at packet from and does not exceed maxPackets and maxBytes; a single packet
// may exceed maxBytes. A packet that is empty or larger than maxPacket ends the run before it; if it is the first
// packet, Next returns an error. Call it only with from < out.Count on an Outbound that passed Check.
func Next(out *transport.Outbound, from, maxPacket, maxPackets, maxBytes int) (Run, error) {
	size := int(out.Lens[from])
	if err := CheckPacket(size, maxPacket); err != nil {
		return Run{}, err
	}
	if size > out.Stride && out.Count > 1 {
		return Run{}, fmt.Errorf("transport: packet of %d bytes is longer than its train's stride of %d", size, out.Stride)
	}
	run := Run{Count: 1, Size: size, Bytes: size}
	lens := out.Lens[from:out.Count]
	if maxPackets < len(lens) {
		lens = lens[:maxPackets]
	}
	for _, l := range lens[1:] {
		n := int(l)
		if n == 0 || n > size || run.Bytes+n > maxBytes {
			break
		}
		run.Count++
		run.Bytes += n
		if n < size {
			break
		}
	}
	return run, nil
}

// CheckPacket returns an error for a packet that is empty or larger than maxPacket.
func CheckPacket(size, maxPacket int) error {
	switch {
	case size == 0:
		return ErrEmptyPacket
	case size > maxPacket:
		return &SizeError{size, maxPacket}
	}
	return nil
}

// Packed reports whether the packets of the run are contiguous.
func (r Run) Packed(stride int) bool { return r.Count == 1 || r.Size == stride }

// Copy copies the packets of the run, which begins at packet from, contiguously into dst, which has room for r.Bytes.
func (r Run) Copy(dst []byte, out *transport.Outbound, from int) {
	base := from * out.Stride
	if r.Packed(out.Stride) {
		copy(dst, out.Data[base:base+r.Bytes])
		return
	}
	for at := 0; at < r.Bytes; at += r.Size {
		n := min(r.Size, r.Bytes-at)
		copy(dst[at:at+n], out.Data[base:base+n])
		base += out.Stride
	}
}

// SizeError is the error for a packet that is too large. It matches transport.ErrPacketTooLarge.
type SizeError struct {
	Size, Max int // bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, the limit is %d", transport.ErrPacketTooLarge, e.Size, e.Max)
}

func (e *SizeError) Unwrap() error { return transport.ErrPacketTooLarge }
