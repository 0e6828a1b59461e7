package reliable

import (
	"bytes"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// On a fabric that checks packets itself a checksum is optional, but if present it must match, in
// all packets on all code paths (docs/protocol §2.4).
func TestChecksumIsVerifiedOnACheckedFabric(t *testing.T) {
	checksummed := func(b []byte) []byte {
		wire.SetChecksum(b)
		return b
	}
	damaged := func(b []byte) []byte {
		b = checksummed(b)
		b[len(b)-1] ^= 0x10
		return b
	}
	h := wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}
	var gone wire.RangesBuilder
	gone.Begin(nil, h, wire.TypeGone, 0, 1, wire.ReasonNone, 0, 512)
	gone.Add(1, 1)

	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	handle := func(b []byte) {
		now++
		r.Handle(now, 1, b)
	}
	handle(damaged(data(3, 0, 0))) // does not start a stream
	if len(l.up) != 0 {
		t.Error("a damaged packet started a stream")
	}
	handle(data(3, 0, 0))          // without a checksum
	handle(data(3, 1, 0))          // recognized by its header
	handle(damaged(data(3, 2, 0))) // must not be recognized by its header
	handle(damaged(data(3, 2, wire.FlagRepair)))
	handle(damaged(heartbeatOf(3, 0, wire.Heartbeat{Lead: 1 << 20, SentAt: 1})))
	handle(damaged(bytes.Clone(gone.Finish())))
	if s := r.Stats(); len(l.packets) != 2 || s.Damaged != 5 || s.Heartbeats != 0 || s.Missing != 0 {
		t.Errorf("after damaged packets: %d packets delivered, %+v", len(l.packets), s)
	}
	handle(checksummed(data(3, 2, 0)))
	handle(checksummed(data(3, 3, 0)))
	handle(damaged(data(3, 4, 0))) // the previous packet had a checksum, too
	handle(checksummed(data(3, 4, 0)))
	handle(data(3, 5, 0)) // a receiver that requires no checksum accepts a packet without one
	if s := r.Stats(); len(l.packets) != 6 || s.Damaged != 6 || s.Packets != 6 {
		t.Errorf("after valid packets: %d packets delivered, %+v", len(l.packets), s)
	}
}

// A publisher on such a fabric also rejects damaged NAKs and statuses. docs/protocol §2.4.
func TestChecksumOfRepliesIsVerified(t *testing.T) {
	b := newBench(t, nil)
	h := b.s.header
	status := wire.AppendStatus(nil, h, &wire.Status{Receiver: 42, Limit: 100}, nil)
	wire.SetChecksum(status)
	status[60] ^= 1
	b.s.Handle(b.now, status, nil)
	var nak wire.RangesBuilder
	nak.Begin(nil, h, wire.TypeNAK, 42, 0, wire.ReasonNone, 0, 512)
	nak.Add(0, 1)
	p := nak.Finish()
	wire.SetChecksum(p)
	p[len(p)-1] ^= 1
	b.s.Handle(b.now, p, nil)
	if s := b.s.Stats(); s.Malformed != 2 || s.Statuses != 0 || s.NAKs != 0 || len(b.s.members.list) != 0 {
		t.Errorf("%+v, %d subscribers known", s, len(b.s.members.list))
	}
}
