package interop

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// heard is a heartbeat that is not of the end.
type heard struct {
	wire.Heartbeat
	wire.Header
}

// observer reads the heartbeats of a group, and forges some.
type observer struct {
	t     *testing.T
	tr    transport.Transport
	out   transport.Sender
	batch *transport.Batch
	heard heard // the newest

	announce []byte // the newest
}

// transport opens a transport of the test's own.
func (n *network) transport(t *testing.T) transport.Transport {
	t.Helper()
	u, err := url.Parse(n.url())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := udp.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (n *network) observe(t *testing.T, group int) *observer {
	t.Helper()
	tr := n.transport(t)
	t.Cleanup(func() { tr.Close() })
	o := &observer{t: t, tr: tr, batch: transport.NewBatch(16)}
	var err error
	if o.out, err = tr.NewSender(group); err == nil {
		err = tr.Join(group)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// next is the newest heartbeat, of those that have come since the call before.
func (o *observer) next(ctx context.Context) heard {
	o.t.Helper()
	o.heard = heard{}
	for o.poll() || o.heard.SentAt == 0 || o.announce == nil {
		if err := ctx.Err(); err != nil {
			o.t.Fatal(err)
		}
		if o.heard.SentAt == 0 || o.announce == nil {
			if err := o.tr.Wait(100 * time.Millisecond); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	return o.heard
}

// poll takes what has come, and reports whether that was anything.
func (o *observer) poll() bool {
	o.t.Helper()
	if err := o.tr.Poll(o.batch); err != nil {
		o.t.Fatal(err)
	}
	for i := range o.batch.Trains {
		x := &o.batch.Trains[i]
		for j := range x.Count() {
			o.take(x.Packet(j))
		}
		o.tr.Release(x)
	}
	return len(o.batch.Trains) > 0
}

func (o *observer) take(b []byte) {
	h, err := wire.ParseHeader(b)
	b = append([]byte(nil), b...)
	switch {
	case err != nil || h.Flags&wire.FlagEnd != 0:
	case h.Type == wire.TypeAnnounce:
		o.announce = b
	case h.Type == wire.TypeHeartbeat:
		if hb, err := wire.ParseHeartbeat(b); err == nil {
			o.heard = heard{hb, h}
		}
	}
}

// end forges n heartbeats of the end behind x, each sent a nanosecond later, and repeats the newest announce,
// for a stream has not ended before its totals are told.
func (o *observer) end(x heard, n int) {
	for range n {
		x.SentAt++
		h := x.Header
		h.Flags |= wire.FlagEnd
		o.send(wire.AppendHeartbeat(nil, h, &x.Heartbeat))
	}
	o.send(o.announce)
}

func (o *observer) send(b []byte) {
	o.t.Helper()
	if n, err := o.out.Send(&transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}}); n != 1 || err != nil {
		o.t.Fatal(n, err)
	}
}
