package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// addresses counts calls of GroupAddress.
type addresses struct {
	transport.Transport
	calls int
}

func (a *addresses) GroupAddress(int) string { a.calls++; return "mem://x/0" }

// traced returns a function that emits events for a trace: a train, a NAK and, without a trace, a loss. With a trace, a
// loss needs a stream of a receiver.
func traced(trace func(*Trace)) (emit func(), a *addresses) {
	a = new(addresses)
	l := &Loop{cfg: Config{Trace: trace}, t: a}
	l.counters.times = newDistributions()
	out, in, st := &senderSink{l, 0}, &group{l: l}, new(reliable.Stream)
	return func() {
		out.Sent(reliable.SentTrain{First: 1, Packets: 2, Bytes: 3})
		out.Asked(1, 2, 3)
		if trace == nil {
			in.Loss(st, reliable.LossEvent{Step: reliable.LossFound, Seq: 1, Count: 1})
		}
	}, a
}

// Without Config.Trace no trace is allocated, and no address is looked up.
func TestTraceUnsetCostsNothing(t *testing.T) {
	emit, a := traced(nil)
	if n := testing.AllocsPerRun(1000, emit); n != 0 || a.calls != 0 {
		t.Errorf("without a trace: %v allocations and %d address look-ups, want 0", n, a.calls)
	}
	reported := 0
	emit, a = traced(func(*Trace) { reported++ })
	if emit(); reported != 2 || a.calls != 2 {
		t.Errorf("%d events traced with %d address look-ups, want 2", reported, a.calls)
	}
}

// BenchmarkTrace measures the events of a train and a NAK, with their histograms.
func BenchmarkTrace(b *testing.B) {
	for name, trace := range map[string]func(*Trace){"unset": nil, "set": func(*Trace) {}} {
		emit, _ := traced(trace)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				emit()
			}
		})
	}
}
