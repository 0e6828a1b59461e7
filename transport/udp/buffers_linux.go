//go:build !fanfare_plainudp

package udp

import (
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// maxRecv is the number of messages in one recvmmsg: enough that single packets share its cost, and few enough that
// their buffers stay in the cache.
const maxRecv = 32

// receiver is the receive memory of a transport and one prepared recvmmsg, which all its sockets share.
type receiver struct {
	mem   []byte
	pitch int // distance of two buffers in bytes
	bufs  []buffer
	free  []int32

	// The first armed messages of the batch each have a buffer.
	armed int
	batch *sys.RecvBatch
	at    [maxRecv]int32 // index of each message's buffer
}

// buffer is the state of a receive buffer.
type buffer struct {
	from sys.Sockaddr // of the latest train in it
	used int          // bytes
	gen  uint32       // odd while lent; detects a double Release
}

func newReceiver(buffers int) (*receiver, error) {
	// An odd number of cache lines from buffer to buffer: their starts then spread over all sets of the cache.
	r := &receiver{pitch: bufferBytes + 64, batch: sys.NewRecvBatch(maxRecv, sys.RoomForTrains)}
	buffers += maxRecv // these may be armed while all others are lent
	mem, err := sys.Alloc(buffers * r.pitch)
	if err != nil {
		return nil, err
	}
	r.mem, r.bufs = mem, make([]buffer, buffers)
	for i := buffers - 1; i >= 0; i-- {
		r.free = append(r.free, int32(i))
	}
	return r, nil
}

// close frees the memory, including that of lent trains.
func (r *receiver) close() {
	sys.Free(r.mem)
	r.mem, r.free, r.armed = nil, nil, 0
}

// arm gives message i a buffer.
func (r *receiver) arm(i int, buf int32) {
	r.at[i] = buf
	r.batch.SetBuffer(i, r.mem[int(buf)*r.pitch:][:bufferBytes])
}

// armUpTo arms messages until n of them are.
func (r *receiver) armUpTo(n int) {
	for r.armed < n && len(r.free) > 0 {
		buf := r.free[len(r.free)-1]
		r.free = r.free[:len(r.free)-1]
		r.arm(r.armed, buf)
		r.armed++
	}
}

// rearm refills the first n messages, after their buffers were lent or returned: with free buffers, and when there are
// none left, with those of the last messages.
func (r *receiver) rearm(n int) {
	for i := range n {
		switch {
		case len(r.free) > 0:
			buf := r.free[len(r.free)-1]
			r.free = r.free[:len(r.free)-1]
			r.arm(i, buf)
		case r.armed > n:
			r.armed--
			r.arm(i, r.at[r.armed])
		default:
			r.armed = i
			return
		}
	}
}

// lend marks a buffer as lent and returns the value for Lease and From.
func (r *receiver) lend(buf int32, used int, from *sys.Sockaddr) uint64 {
	b := &r.bufs[buf]
	b.gen++
	b.used, b.from = used, *from
	return uint64(b.gen)<<32 | uint64(buf)
}

// lentBuffer returns the buffer for a Lease or From, or nil if it is not lent.
func (r *receiver) lentBuffer(token uint64) *buffer {
	i := uint32(token)
	if int(i) >= len(r.bufs) || r.bufs[i].gen != uint32(token>>32) || r.bufs[i].gen&1 == 0 {
		return nil
	}
	return &r.bufs[i]
}

func (r *receiver) source(from transport.Source) (*sys.Sockaddr, bool) {
	b := r.lentBuffer(uint64(from))
	if b == nil {
		return nil, false
	}
	return &b.from, true
}

func (r *receiver) release(token uint64) {
	b := r.lentBuffer(token)
	if b == nil {
		panic("udp: train released twice, or never lent")
	}
	i := int(uint32(token))
	sys.Poison(r.mem[i*r.pitch:][:b.used])
	b.gen++
	r.free = append(r.free, int32(i))
}
