package worker

import (
	"context"
	"sync/atomic"
)

// Contender is what is measured. A worker makes one of its own; publisher and subscribers share it where they are in
// one process. The methods return when their part is over, or ctx ends.
type Contender interface {
	// Publish calls Ready, then Begin, publishes the load, waits until subscribers have it if it can, and calls End.
	Publish(ctx context.Context, r *Run) error
	// Subscribe calls Ready when it would receive what is published from then
	// on, and receives with r's receivers until the last message or Stopped.
	Subscribe(ctx context.Context, r *Run) error
}

// Broker is a Contender that needs a server, which is run as a third process.
type Broker interface {
	Contender
	// Serve calls Ready with the server's address and returns when ctx ends.
	Serve(ctx context.Context, r *Run) error
}

// Topical is a Contender that can go through many topics (Spec.Topics).
type Topical interface {
	Contender
	Topical()
}

// Run is one side's part in a measurement.
type Run struct {
	Spec *Spec
	// MetricsAddress is where metrics are served, if they are: set it before Ready.
	MetricsAddress string

	say     func(message)   // to the program that started the worker
	stopped context.Context // ends when the publisher has
	begun   atomic.Pointer[sample]

	report    *Report // the publisher's, or the first receiver's; has what the process used
	receivers []*Check
}

func newRun(spec *Spec, stopped context.Context, say func(message)) *Run {
	return &Run{Spec: spec, stopped: stopped, say: say, report: new(Report)}
}

// Ready says that the side is; others can reach it at address, if it has one.
func (r *Run) Ready(address string) {
	m := message{Ready: true, Address: address}
	if r.MetricsAddress != "" {
		m.Metrics = []string{r.MetricsAddress}
	}
	r.say(m)
}

// Stopped is closed when the publisher has ended: what has not come within a moment will not come.
func (r *Run) Stopped() <-chan struct{} { return r.stopped.Done() }

// Over reports whether the publisher has ended.
func (r *Run) Over() bool { return r.stopped.Err() != nil }

// Begin starts the publisher's measurement.
func (r *Run) Begin() {
	r.start()
	r.report.Start = Now()
}

func (r *Run) start() {
	s := takeSample()
	r.begun.CompareAndSwap(nil, &s)
}

// End ends the publisher's measurement.
func (r *Run) End(messages uint64) {
	r.report.End, r.report.Messages = Now(), messages
	r.finishUsage()
}

func (r *Run) finishUsage() {
	if before := r.begun.Load(); before != nil {
		r.report.Usage = takeSample().since(*before)
	}
}

// Figures reports what the contender has counted itself.
func (r *Run) Figures(all map[string]float64) { r.report.Figures = all }

// Foreign reports what another program has measured in place of this side's
// receivers or publisher: a peer that is not written in Go.
func (r *Run) Foreign(report *Report) { r.report = report }

// Receiver returns what checks and measures the messages of a subscriber: one for each of Spec.Here.
func (r *Run) Receiver(lossy bool) *Check {
	i, report := len(r.receivers), r.report
	if i > 0 {
		report = new(Report)
	}
	r.receivers = append(r.receivers, newCheck(r.Spec, r.Spec.taken(r.Spec.Index+i), lossy, r.start, report))
	return r.receivers[i]
}

// reports collects what the side has measured: one report each receiver, or the publisher's.
func (r *Run) reports() (all []*Report) {
	if len(r.receivers) == 0 || r.Spec.Load == LoadIdle {
		return []*Report{r.report}
	}
	r.finishUsage()
	for _, c := range r.receivers {
		all = append(all, c.finish())
	}
	return all
}
