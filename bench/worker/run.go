package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Contender is what is measured. A worker makes one of its own; publisher and
// subscribers share it where they are in one process. The methods return when
// their part is over, or ctx ends.
type Contender interface {
	// Publish calls Ready, then Begin, publishes the load, waits until
	// subscribers have it if it can, and calls End.
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

// Joiner is a Contender whose subscribers can join on the way.
type Joiner interface {
	Contender
	// Join calls Ready, and lets Spec.Joins.Subs subscribers come and go until Stopped.
	Join(ctx context.Context, r *Run) error
}

// Attacker is a Contender whose fabric can be attacked.
type Attacker interface {
	Contender
	// Attack calls Ready, and does what Spec.Attack says until Stopped.
	Attack(ctx context.Context, r *Run) error
}

// Topical is a Contender that can go through many topics (Spec.Topics).
type Topical interface {
	Contender
	Topical()
}

// Run is one side's part in a measurement.
type Run struct {
	Spec Spec
	// MetricsAddress is where metrics are served, if they are: set it before
	// Ready.
	MetricsAddress string

	say     func(message) // to who started the worker
	once    sync.Once     // of Ready
	stopped chan struct{} // closed when the publisher has ended
	begun   atomic.Pointer[sample]

	lap, longest int64 // of Lap

	report    Report
	receivers []*Receiver
	foreign   []Report // in place of all that
}

func newRun(spec Spec, stopped chan struct{}, say func(message)) *Run {
	return &Run{Spec: spec, stopped: stopped, say: say}
}

// Ready says that the side is; others can reach it at address, if it has one.
func (r *Run) Ready(address string) {
	r.once.Do(func() {
		m := message{Ready: true, Address: address}
		if r.MetricsAddress != "" {
			m.Metrics = []string{r.MetricsAddress}
		}
		r.say(m)
	})
}

// Stopped is closed when the publisher has ended: what has not come within a
// moment will not come.
func (r *Run) Stopped() <-chan struct{} { return r.stopped }

// Over reports whether the publisher has ended.
func (r *Run) Over() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// Begin starts the publisher's measurement.
func (r *Run) Begin() {
	r.start()
	r.report.Start = Now()
	r.lap = r.report.Start
	r.tell(Begun)
}

// Phase is how far a publisher is.
type Phase string

// Phases.
const (
	Begun Phase = "begun" // it publishes
	Ended Phase = "ended" // it has published
)

// tell tells who started the worker how far it is, if somebody is to be stopped meanwhile.
func (r *Run) tell(p Phase) {
	if r.Spec.Flow.Stopped > 0 && r.say != nil {
		r.say(message{Phase: p})
	}
}

// Lap is the present time, of a publisher that publishes between two calls: it notes the
// longest time from one to the next.
func (r *Run) Lap() int64 {
	now := Now()
	r.longest = max(r.longest, now-r.lap)
	r.lap = now
	return now
}

// Longest is the longest time between two calls of Lap.
func (r *Run) Longest() time.Duration { return time.Duration(r.longest) }

func (r *Run) start() {
	s := takeSample()
	r.begun.CompareAndSwap(nil, &s)
}

// End ends the publisher's measurement.
func (r *Run) End(messages uint64) {
	r.report.End, r.report.Messages = Now(), messages
	r.finishUsage()
	r.tell(Ended)
}

func (r *Run) finishUsage() {
	if before := r.begun.Load(); before != nil {
		r.report.Usage = takeSample().since(*before)
	}
}

// Figures reports what the contender has counted itself.
func (r *Run) Figures(all map[string]float64) { r.report.Figures = all }

// Published reports what a source gave to be published, when it has ended. It is not
// safe for concurrent use.
func (r *Run) Published(s *TopicSource) {
	if r.report.Topics == nil {
		r.report.Topics = make([]uint64, r.Spec.topics())
	}
	s.addTo(r.report.Topics)
}

// Receiver returns the checking and measuring part of a subscriber: one for
// each of Spec.Here.
func (r *Run) Receiver(lossy bool) *Receiver {
	v := &Receiver{burst: uint64(r.Spec.Burst), topic: r.Spec.Topic}
	if r.Spec.Many() {
		v.Topics = newTopicCheck(&r.Spec, r.Spec.Index+len(r.receivers), r.stampsMessages(), lossy, r.start)
	} else {
		v.Check = NewCheck(r.Spec.Size, r.stampsMessages(), lossy, r.Spec.CheckAll, r.start)
	}
	if r.Spec.Watched() {
		v.rest().progress = newProgress(int64(r.Spec.duration()))
	}
	if r.stampsMessages() {
		v.latency = NewHistogram()
		v.skip = r.warmUp()
	}
	if r.Spec.Load == LoadBurst {
		v.bursts = NewHistogram()
	}
	r.receivers = append(r.receivers, v)
	return v
}

func (r *Run) stampsMessages() bool { return r.Spec.Load == LoadPaced || r.Spec.Load == LoadBurst }

// warmUp is how many messages do not count of a paced load's beginning: those of a tenth
// of it, at most of 0.2 s, in whole bursts.
func (r *Run) warmUp() uint64 {
	d := min(r.Spec.duration()/10, 200*time.Millisecond)
	if r.Spec.Load == LoadBurst {
		return uint64(d/r.Spec.Every) * uint64(r.Spec.Burst)
	}
	return uint64(d.Seconds() * r.Spec.Rate)
}

// reports collects what the side has measured: one report each receiver, or
// the publisher's.
func (r *Run) reports() ([]Report, error) {
	if r.foreign != nil {
		return r.foreign, nil
	}
	if len(r.receivers) == 0 || r.Spec.Load == LoadIdle {
		return []Report{r.report}, nil
	}
	r.finishUsage()
	var all []Report
	for i, v := range r.receivers {
		rep := Report{Usage: r.report.Usage, Figures: r.report.Figures}
		if i > 0 {
			rep.Usage, rep.Figures = Usage{}, nil // of the process, told once
		}
		v.report(&rep)
		for dst, h := range map[*string]*hdrhistogram.Histogram{&rep.Latency: v.latency, &rep.Burst: v.bursts} {
			if h == nil {
				continue
			}
			text, err := encodeHistogram(h)
			if err != nil {
				return nil, fmt.Errorf("encode histogram: %w", err)
			}
			*dst = text
		}
		all = append(all, rep)
	}
	return all, nil
}

// Receiver checks and measures what one subscriber receives. It is for one
// goroutine.
type Receiver struct {
	topic   string                  // where there is one
	Check   *Check                  // nil where Spec.Many
	Topics  *TopicCheck             // nil where not
	latency *hdrhistogram.Histogram // ns; nil where messages are not stamped
	bursts  *hdrhistogram.Histogram // ns
	burst   uint64
	skip    uint64 // messages before the measurement
}

// Names are the names of the topics that the subscriber takes. It compares sooner with what
// has come where it has subscribed to these very strings.
func (v *Receiver) Names() []string {
	if v.Topics == nil {
		return []string{v.topic}
	}
	return slices.DeleteFunc(slices.Clone(v.Topics.names), func(name string) bool { return name == "" })
}

// rest is what both checks have.
func (v *Receiver) rest() *checkRest {
	if v.Topics != nil {
		return &v.Topics.rest
	}
	return &v.Check.rest
}

// Message takes the next message, where there is one series of them.
func (v *Receiver) Message(b []byte) {
	v.Check.Message(b)
	if v.latency != nil && len(b) >= MinSize {
		v.late(b, v.Check.next)
	}
}

// On takes the next message, which came on topic.
func (v *Receiver) On(topic string, b []byte) {
	if v.Topics == nil {
		v.Message(b)
		return
	}
	v.Topics.Message(topic, b)
	if v.latency != nil && len(b) >= MinSize {
		v.late(b, v.Topics.received)
	}
}

// late records how late a message is that is the count-th.
func (v *Receiver) late(b []byte, count uint64) {
	d := Now() - Stamped(b)
	if count <= v.skip {
		return
	}
	record(v.latency, d)
	if v.bursts != nil && count%v.burst == 0 {
		record(v.bursts, d)
	}
}

// Done reports whether the last message has come, of each source.
func (v *Receiver) Done() bool {
	if v.Topics != nil {
		return v.Topics.Done()
	}
	return v.Check.Done()
}

// Gap takes note that count messages of a topic, from number first on, are known to be
// lost.
func (v *Receiver) Gap(topic string, first, count uint64) {
	if v.Topics != nil {
		v.Topics.Gap(topic, first, count)
		return
	}
	v.Check.Gap(first, count)
}

// Bad counts something else that must not be.
func (v *Receiver) Bad(what string) {
	if v.Topics != nil {
		v.Topics.rest.fail(what)
		return
	}
	v.Check.Bad(what)
}

func (v *Receiver) report(r *Report) {
	if v.Topics != nil {
		v.Topics.report(r)
		return
	}
	v.Check.report(r)
}
