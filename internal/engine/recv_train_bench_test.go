package engine

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// anySender is a transport that accepts every sender, and the release of trains that it has not lent.
type anySender struct{ transport.Transport }

func (anySender) Retain(transport.Source) (transport.Peer, error) { return 1, nil }
func (anySender) Forget(transport.Peer)                           {}
func (anySender) Reply(transport.Peer, []byte) error              { return nil }
func (anySender) Release(*transport.Train)                        {}

// counts is a handler that counts its calls.
type counts struct{ messages, others int }

func (c *counts) Message(*reliable.Origin, *topics.Track, uint64, []byte) { c.messages++ }
func (c *counts) Other(*Delivery)                                         { c.others++ }

func (c *counts) Run(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, maxBytes int) ([]byte, uint64) {
	for {
		_, rest, ok := topics.NextMessage(body, step, maxBytes)
		if !ok {
			return body, number
		}
		c.messages++
		body = rest
		number++
	}
}

// BenchmarkTrain measures a packet from its received train to the handler, without the transport, and reports
// ns/message.
func BenchmarkTrain(b *testing.B) {
	for _, size := range []int{64, 1024} {
		b.Run(fmt.Sprintf("message=%d", size), func(b *testing.B) { benchmarkTrain(b, size) })
	}
}

func benchmarkTrain(b *testing.B, size int) {
	_, l := newLoopOver(b, Config{}, func(t transport.Transport) transport.Transport { return anySender{t} })
	h := new(counts)
	if _, err := l.Subscribe([]TopicName{{Name: "a.b", Group: 0}}, policyAuto, From{}, false, h); err != nil {
		b.Fatal(err)
	}
	const packet = 1472
	each := (packet - wire.DataHeaderLen - wire.RunHeaderLen) / (wire.MessageHeaderLen + size)
	n := wire.DataHeaderLen + wire.RunHeaderLen + each*(wire.MessageHeaderLen+size)
	count := wire.MaxPacket / n
	tr := transport.Train{Data: make([]byte, count*n), SegmentSize: n, From: 5}
	for i := range count {
		p := tr.Packet(i)
		wire.PutDataHeader(p, wire.Header{GroupTag: wire.GroupTag(l.t.GroupAddress(0)), Publisher: 7, Epoch: 3}, packet)
		wire.PutRunHeader(p[wire.DataHeaderLen:], wire.RunMessages, n-wire.DataHeaderLen-wire.RunHeaderLen, wire.TopicID("a.b"), 0)
		for at := wire.DataHeaderLen + wire.RunHeaderLen; at < n; at += wire.MessageHeaderLen + size {
			p[at], p[at+1] = byte(size), byte(size>>8)
		}
	}
	b.SetBytes(int64(n))
	if err := l.do(func() {
		seq := uint64(0)
		for left := b.N; left > 0; left -= count {
			for i := range count {
				p := tr.Packet(i)
				wire.SetSeq(p, seq)
				wire.SetRunNumber(p[wire.DataHeaderLen:], seq*uint64(each))
				seq++
			}
			l.inbox.at = batchIndex{}
			for more := true; more; {
				now := l.now()
				l.budget.begin(now)
				l.resume(now)
				more = !l.train(now, &tr) // another goroutine may have taken the turn's time
			}
		}
		if uint64(h.messages) != seq*uint64(each) || h.others > 0 {
			b.Errorf("%d messages delivered, want %d, and %d other deliveries, want 0", h.messages, seq*uint64(each), h.others)
		}
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(h.messages), "ns/message")
}
