package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Bench runs measurements.
type Bench struct {
	Settings
	// Exe is a program with the subcommand worker.Command, which calls worker.Main with Contenders.
	Exe        string
	Contenders worker.Contenders
	// Progress is called with a text when a measurement begins; may be nil.
	Progress func(what string)

	handovers []float64 // in ns, before each run, because they change from one second to the next
}

// runGrace is the time allowed for a run beyond its load, for starting processes and repairing losses.
const runGrace = 60 * time.Second

// requestGrace is the time allowed for a request, on average.
const requestGrace = 10 * time.Millisecond

// spec is the part of the specification that all contestants share.
func (b *Bench) spec(c contestant, load worker.Load) (worker.Spec, error) {
	port, err := freePort()
	if err != nil {
		return worker.Spec{}, err
	}
	fabric, err := b.fabric(port)
	if err != nil {
		return worker.Spec{}, err
	}
	s := worker.Spec{
		Contender: c.contender, URL: fabric, Legs: b.Legs, Topic: "bench.load", Address: baselineGroup(port), Sockets: b.Sockets,
		Load: load, Traffic: b.Traffic, Shape: b.Shape, Loss: b.Loss, Seed: uint64(b.Seed),
	}
	if b.Profile != "" {
		s.Profile = filepath.Join(b.Profile, c.key)
	}
	if c.contender == contenders.Raw {
		s.MTU = b.socketMTU()
	}
	if c.tweak != nil {
		c.tweak(&b.Settings, &s)
	}
	return s, nil
}

// overUDP changes a run to plain UDP, with datagrams of mtu bytes.
func (s *Settings) overUDP(w *worker.Spec, mtu int) {
	plain := *s
	plain.Transport, plain.URL, plain.MTU = "udp", "", mtu
	port := netip.MustParseAddrPort(w.Address).Port() // from baselineGroup
	w.URL, _ = plain.fabric(int(port))                // fails only for bad URLs
	w.MTU = mtu
}

// freePort returns an unused UDP port.
func freePort() (int, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port, nil
}

// run measures a contestant once.
func (b *Bench) run(ctx context.Context, c contestant, load worker.Load) (*outcome, error) {
	b.handovers = append(b.handovers, handover()...)
	spec, err := b.spec(c, load)
	if err != nil {
		return nil, err
	}
	limit := time.Duration(spec.Seconds*float64(time.Second)) + runGrace
	if load == worker.LoadRequest {
		limit = time.Duration(spec.Requests)*requestGrace + runGrace
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, worker.ErrTimeout)
	defer cancel()
	o := &outcome{spec: spec}
	if err := b.workers(ctx, o); err != nil {
		return nil, err
	}
	if load == worker.LoadPaced || load == worker.LoadRequest {
		o.decode()
	}
	return o, o.check()
}

// workers runs all sides: each in its own worker, or all in one if the transport is in-process.
func (b *Bench) workers(ctx context.Context, o *outcome) error {
	var all []*worker.Process
	defer func() {
		for _, p := range all {
			p.Abort()
		}
	}()
	// start starts workers and waits until all are ready.
	start := func(roles ...worker.Role) (started []*worker.Process, err error) {
		for i, role := range roles {
			s := o.spec
			s.Role, s.Index = role, i
			p, err := worker.Start(b.Exe, s)
			if err != nil {
				return nil, err
			}
			started, all = append(started, p), append(all, p)
		}
		for _, p := range started {
			if err := p.Ready(ctx); err != nil {
				return nil, err
			}
		}
		return started, nil
	}
	publisher, subscribers := worker.RolePublish, slices.Repeat([]worker.Role{worker.RoleSubscribe}, o.spec.Subs)
	if b.InProcess() && (o.spec.Contender == contenders.Fanfare || o.spec.Contender == contenders.Channel) {
		publisher, subscribers = worker.RoleBoth, nil
	}
	if _, ok := b.Contenders[o.spec.Contender]().(worker.Broker); ok {
		broker, err := start(worker.RoleBroker)
		if err != nil {
			return err
		}
		o.spec.Broker = broker[0].Address
	}
	subs, err := start(subscribers...)
	if err != nil {
		return err
	}
	pub, err := start(publisher)
	if err != nil {
		return err
	}
	stop := o.watch(append(pub, subs...)...)
	err = o.collect(ctx, pub[0], subs)
	return cmp.Or(err, stop())
}

// collect waits for the publisher's report, and then for those of subscribers.
func (o *outcome) collect(ctx context.Context, pub *worker.Process, subs []*worker.Process) error {
	reports, err := pub.Reports(ctx)
	if err != nil {
		return err
	}
	o.pub, o.subs = reports[0], reports[1:] // including those in its process
	for _, p := range subs {
		p.Stop()
	}
	for _, p := range subs {
		reports, err := p.Reports(ctx)
		if err != nil {
			return err
		}
		o.subs = append(o.subs, reports...)
	}
	return nil
}

func (b *Bench) progress(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// rounds runs the contestants in turn, Runs times each. With an error it returns the completed runs.
func (b *Bench) rounds(ctx context.Context, what string, load worker.Load,
	all []contestant) (map[string][]*outcome, error) {
	got := make(map[string][]*outcome)
	for i := range b.Runs {
		for _, c := range all {
			b.progress("%s: run %d of %d, %s", what, i+1, b.Runs, c.key)
			o, err := b.run(ctx, c, load)
			if err != nil {
				return paired(got), err
			}
			got[c.key] = append(got[c.key], o)
		}
	}
	return got, nil
}

// paired truncates the runs of all contestants to the same number, because a ratio is of neighbouring runs.
func paired(got map[string][]*outcome) map[string][]*outcome {
	fewest := math.MaxInt
	for _, runs := range got {
		fewest = min(fewest, len(runs))
	}
	for key, runs := range got {
		got[key] = runs[:fewest]
	}
	return got
}
