package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// addresses counts how often the address of a group is asked for.
type addresses struct {
	transport.Transport
	asked int
}

func (a *addresses) GroupAddress(int) string { a.asked++; return "mem://x/0" }

// traced returns a function that makes events of a trace: a train, a NAK and, without a trace, a loss, which needs the
// stream of a receiver otherwise.
func traced(trace func(*Trace)) (tell func(), a *addresses) {
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

// Without Config.Trace nothing is made for it, and nothing asked.
func TestTraceUnsetCostsNothing(t *testing.T) {
	tell, a := traced(nil)
	if n := testing.AllocsPerRun(1000, tell); n != 0 || a.asked != 0 {
		t.Errorf("%v allocations without a trace, an address was asked for %d times", n, a.asked)
	}
	reported := 0
	tell, a = traced(func(*Trace) { reported++ })
	if tell(); reported != 2 || a.asked != 2 {
		t.Errorf("a trace gets %d events, want 2", reported)
	}
}

// BenchmarkTrace is of a train and a NAK, with what the histograms take.
func BenchmarkTrace(b *testing.B) {
	for name, trace := range map[string]func(*Trace){"unset": nil, "set": func(*Trace) {}} {
		tell, _ := traced(trace)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tell()
			}
		})
	}
}
