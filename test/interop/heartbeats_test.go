package interop

import (
	"bytes"
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// received is a heartbeat without END.
type received struct {
	wire.Heartbeat
	wire.Header
}

// observer reads the heartbeats of a group, and forges END heartbeats.
type observer struct {
	t        *testing.T
	tr       transport.Transport
	out      transport.Sender
	batch    *transport.Batch
	received received // the newest
	messages bool     // data packets with messages came
}

// transport opens a transport for the test.
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

// next returns the newest heartbeat received since the previous call.
func (o *observer) next(ctx context.Context) received {
	o.t.Helper()
	o.received = received{}
	for o.poll() || o.received.SentAt == 0 {
		if err := ctx.Err(); err != nil {
			o.t.Fatal(err)
		}
		if o.received.SentAt == 0 {
			if err := o.tr.Wait(100 * time.Millisecond); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	return o.received
}

// poll reads received packets, and reports whether there were any.
func (o *observer) poll() bool {
	o.t.Helper()
	if err := o.tr.Poll(o.batch); err != nil {
		o.t.Fatal(err)
	}
	for i := range o.batch.Trains {
		x := &o.batch.Trains[i]
		for j := range x.Count() {
			o.process(x.Packet(j))
		}
		o.tr.Release(x)
	}
	return len(o.batch.Trains) > 0
}

func (o *observer) process(b []byte) {
	h, err := wire.ParseHeader(b)
	if err != nil || h.Flags&wire.FlagEnd != 0 {
		return
	}
	switch h.Type {
	case wire.TypeHeartbeat:
		if hb, err := wire.ParseHeartbeat(b); err == nil {
			hb.Name = bytes.Clone(hb.Name)
			o.received = received{hb, h}
		}
	case wire.TypeData:
		d, _ := wire.ParseData(b)
		for run, rest, ok := wire.NextRun(d.Runs); ok; run, rest, ok = wire.NextRun(rest) {
			o.messages = o.messages || run.Kind == wire.RunMessages
		}
	}
}

// end forges n END heartbeats after x, each sent a nanosecond later.
func (o *observer) end(x received, n int) {
	for range n {
		x.SentAt++
		h := x.Header
		h.Flags |= wire.FlagEnd
		o.send(wire.AppendHeartbeat(nil, h, &x.Heartbeat))
	}
}

func (o *observer) send(b []byte) {
	o.t.Helper()
	if n, err := o.out.Send(&transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}}); n != 1 || err != nil {
		o.t.Fatalf("Send: %d packets, error %v, want 1", n, err)
	}
}
