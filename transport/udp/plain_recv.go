//go:build !linux || fanfare_plainudp

package udp

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/inbox"
)

// read starts the goroutine that reads conn until it is closed.
func (t *Transport) read(conn *net.UDPConn, group int) {
	t.readers.Add(1)
	go func() {
		defer t.in.Wake()
		defer t.readers.Add(-1)
		var spill []byte // for packets that find the queue full
		for {
			slot, mem, ok := t.in.Acquire()
			if !ok {
				if spill == nil {
					spill = make([]byte, bufferBytes)
				}
				mem = spill
			}
			n, from, err := conn.ReadFromUDPAddrPort(mem)
			switch {
			case errors.Is(err, net.ErrClosed):
				if ok {
					t.in.Discard(slot)
				}
				return
			case err != nil:
				t.received.Errors.Add(1)
				// A persistent error must not cause a busy loop.
				time.Sleep(time.Millisecond)
				fallthrough
			case n == 0:
				if ok {
					t.in.Discard(slot)
				}
			case !ok:
				t.received.Overflow.Add(1)
			default:
				t.from[slot] = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
				t.in.Publish(slot, inbox.Item{Bytes: n, SegmentSize: n, Group: group})
			}
		}
	}()
}

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	b.Events = t.events.Take(b.Events)
	bytes := 0
	for room := t.lent.Room(min(cap(b.Trains), batch)); len(b.Trains) < room; {
		item, data, lease, ok := t.in.Next()
		if !ok {
			break
		}
		b.Trains = append(b.Trains, transport.Train{
			Data: data, SegmentSize: item.SegmentSize, Group: item.Group,
			From: transport.Source(lease), Lease: lease,
		})
		bytes += len(data)
	}
	b.More = t.round.EndPoll(len(b.Trains), t.in.Unread())
	if n := len(b.Trains); n > 0 {
		t.lent.Lent(n)
		t.received.Packets.Add(uint64(n))
		t.received.Bytes.Add(uint64(bytes))
		t.received.Calls.Add(uint64(n))
	}
	return nil
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(train *transport.Train) {
	if !t.done.Load() {
		t.in.Release(train.Lease)
		t.lent.Released()
	}
}

// Wait implements transport.Transport. Its timeout is as coarse as Go's timers: 1 ms in an otherwise idle process.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	t.in.Wait(timeout, t.pending)
	return nil
}

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.in.Wake() }
