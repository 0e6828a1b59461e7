package worker

import (
	"context"
	"sync/atomic"
)

// Contender is a measured program. Each worker creates one; publisher and subscribers share it if
// they are in one process. The methods return when their part is done, or ctx ends.
type Contender interface {
	// Publish calls Ready, then Begin, publishes the load, waits until subscribers have it if possible, and calls End.
	Publish(ctx context.Context, r *Run) error
	// Subscribe calls Ready when it can receive everything published from then on, and receives with
	// r's receivers until the last message or Stopped.
	Subscribe(ctx context.Context, r *Run) error
}

// Broker is a Contender that needs a server, which runs as a third process.
type Broker interface {
	Contender
	// Serve calls Ready with the server's address, and returns when ctx ends.
	Serve(ctx context.Context, r *Run) error
}

// Topical is a Contender that supports many topics (Spec.Topics).
type Topical interface {
	Contender
	Topical()
}

// Run is one side's part of a measurement.
type Run struct {
	Spec *Spec
	// MetricsAddress is where metrics are served, if set, which must happen before Ready.
	MetricsAddress string

	send    func(message)   // to the program that started the worker
	stopped context.Context // ends when the publisher has ended
	begun   atomic.Pointer[sample]

	report    *Report // the publisher's, or the first receiver's; contains the usage of the process
	receivers []*Check
}

func newRun(spec *Spec, stopped context.Context, send func(message)) *Run {
	return &Run{Spec: spec, stopped: stopped, send: send, report: new(Report)}
}

// Ready reports that the side is ready; others can reach it at address, if it has one.
func (r *Run) Ready(address string) {
	m := message{Ready: true, Address: address}
	if r.MetricsAddress != "" {
		m.Metrics = []string{r.MetricsAddress}
	}
	r.send(m)
}

// Stopped is closed when the publisher has ended: messages that do not arrive shortly after will not arrive.
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

// Figures reports the contender's own counters.
func (r *Run) Figures(all map[string]float64) { r.report.Figures = all }

// Foreign reports the measurements of an external program, which replaces this side's receivers or publisher.
func (r *Run) Foreign(report *Report) { r.report = report }

// Receiver returns a Check that checks and measures the messages of a subscriber: one for each of Spec.Here.
func (r *Run) Receiver(lossy bool) *Check {
	i, report := len(r.receivers), r.report
	if i > 0 {
		report = new(Report)
	}
	r.receivers = append(r.receivers, newCheck(r.Spec, r.Spec.subscribedNames(r.Spec.Index+i), lossy, r.start, report))
	return r.receivers[i]
}

// reports returns the results of the side: one report for each receiver, or the publisher's.
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
