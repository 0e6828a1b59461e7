package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// Command is the hidden subcommand that runs Main.
const Command = "bench-worker"

// Contenders creates a contender by its name.
type Contenders map[string]func() Contender

// Names are the names of all contenders, sorted.
func (c Contenders) Names() []string { return slices.Sorted(maps.Keys(c)) }

// message is one line from a worker to the program that started it.
type message struct {
	Ready   bool      `json:"ready,omitempty"`
	Address string    `json:"address,omitempty"`
	Metrics []string  `json:"metrics,omitempty"` // addresses where metrics are served
	Reports []*Report `json:"reports,omitempty"` // with RoleBoth the publisher's first
	Error   string    `json:"error,omitempty"`
}

// stopLine is sent to a worker when the publisher has ended.
const stopLine = "stop\n"

// errAbandoned ends a worker at the end of its standard input.
var errAbandoned = errors.New("the measuring program has ended")

// Main runs a worker. It returns the exit code.
func Main(ctx context.Context, in io.Reader, out io.Writer, contenders Contenders) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	enc := json.NewEncoder(out)
	send := func(m message) {
		mu.Lock()
		defer mu.Unlock()
		if enc.Encode(m) != nil {
			cancel(errAbandoned)
		}
	}
	fail := func(code int, err error) int {
		send(message{Error: err.Error()})
		return code
	}
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fail(2, errors.New("no specification on standard input: workers are started only by fanfare bench"))
	}
	var spec Spec
	if err := json.Unmarshal(first, &spec); err != nil {
		return fail(2, fmt.Errorf("parsing the specification: %w", err))
	}
	newContender := contenders[spec.Contender]
	if newContender == nil {
		return fail(2, fmt.Errorf("there is no contender %q", spec.Contender))
	}
	stopped := listen(lines, cancel)
	stopProfile, err := startProfile(spec)
	if err != nil {
		return fail(1, err)
	}
	reports, err := run(ctx, &spec, newContender(), stopped, send)
	if err = errors.Join(err, stopProfile()); err != nil {
		return fail(1, err)
	}
	send(message{Reports: reports})
	return 0
}

// listen returns a context that ends when stopLine arrives, and calls cancel when the input ends.
// Its goroutine ends with the input, which is the end of the process.
func listen(lines *bufio.Reader, cancel context.CancelCauseFunc) context.Context {
	stopped, stop := context.WithCancel(context.Background())
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				cancel(errAbandoned)
				return
			}
			if line == stopLine {
				stop()
			}
		}
	}()
	return stopped
}

func run(ctx context.Context, spec *Spec, c Contender, stopped context.Context, send func(message)) ([]*Report, error) {
	r := newRun(spec, stopped, send)
	publish, subscribe := c.Publish, c.Subscribe
	if spec.Load == LoadRequest {
		q, ok := c.(Requester)
		if !ok {
			return nil, fmt.Errorf("contender %s does not support requests", spec.Contender)
		}
		publish, subscribe = q.Ask, q.Respond
	}
	var err error
	switch spec.Role {
	case RolePublish:
		err = publish(ctx, r)
	case RoleSubscribe:
		err = subscribe(ctx, r)
	case RoleBoth:
		return runBoth(ctx, spec, c, send)
	case RoleBroker:
		b, ok := c.(Broker)
		if !ok {
			return nil, fmt.Errorf("contender %s has no broker", spec.Contender)
		}
		if err := b.Serve(ctx, r); err != nil && ctx.Err() == nil {
			return nil, err
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("there is no role %q", spec.Role)
	}
	if err != nil {
		return nil, err
	}
	return r.reports(), nil
}

// runBoth runs the subscribers and, when they are ready, the publisher, all in this process. Usage
// is in the publisher's report.
func runBoth(ctx context.Context, spec *Spec, c Contender, send func(message)) ([]*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped, stop := context.WithCancel(context.Background())
	defer stop()
	ready := make(chan message, 1)
	var subscribers message
	sub := newRun(spec, stopped, func(m message) { ready <- m })
	pub := newRun(spec, stopped, func(m message) {
		m.Metrics = append(m.Metrics, subscribers.Metrics...)
		send(m)
	})
	done := make(chan error, 1)
	go func() {
		err := c.Subscribe(ctx, sub)
		if err != nil {
			cancel(err)
		}
		done <- err
	}()
	select {
	case subscribers = <-ready:
	case <-ctx.Done():
		return nil, cmp.Or(<-done, context.Cause(ctx), errors.New("a side ended before it was ready"))
	}
	err := c.Publish(ctx, pub)
	stop()
	if err != nil {
		cancel(err)
	}
	if serr := <-done; serr != nil {
		return nil, serr
	}
	if err != nil {
		return nil, err
	}
	subs := sub.reports()
	subs[0].Usage = Usage{} // the process's usage is in the publisher's report
	return append(pub.reports(), subs...), nil
}
