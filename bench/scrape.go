package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// lookEvery is how often metrics are read where they are served, far more often than
// Prometheus would, and snapshots, as fanfare top does.
const lookEvery = time.Second

// lookTimeout is how long one page, or one round of snapshots, may take.
const lookTimeout = 10 * time.Second

// watch reads metrics and snapshots of workers in turns, as their specification says, until stop.
func (o *outcome) watch(all ...*worker.Process) (stop func() error) {
	if !o.spec.Watched() {
		return func() error { return nil }
	}
	if o.turns = always(worker.Now()); o.spec.Load == worker.LoadFull {
		o.turns = newTurns(worker.Now(), time.Duration(o.spec.Seconds*float64(time.Second)))
	}
	stopScrape, stopLook := scrape(o.turns, all...), func() error { return nil }
	if o.spec.LookedAt {
		stopLook = look(o.turns, all...)
	}
	return func() error { return errors.Join(stopScrape(), stopLook()) }
}

// scrape reads the metrics of workers as Prometheus does, until stop, which
// waits until it has ended. It is an error that metrics are served and not one page could
// be read.
func scrape(t turns, all ...*worker.Process) (stop func() error) {
	var from []string
	for _, p := range all {
		for _, address := range p.Metrics {
			from = append(from, "http://"+address+"/metrics")
		}
	}
	if len(from) == 0 {
		return func() error { return nil }
	}
	client := &http.Client{Timeout: lookTimeout, Transport: &http.Transport{}}
	end := poll(t, "metrics are served, and none could be read", func(ctx context.Context) (pages int, failed error) {
		for _, url := range from {
			if err := read(ctx, client, url); err == nil {
				pages++
			} else if failed == nil {
				failed = err
			}
		}
		return pages, failed
	})
	return func() error {
		defer client.CloseIdleConnections()
		return end()
	}
}

// look reads snapshots of all processes of this host, as fanfare top does, until stop. It is
// an error that none of the workers' could be read.
func look(t turns, workers ...*worker.Process) (stop func() error) {
	return poll(t, "workers have sockets, and no snapshot could be read", func(ctx context.Context) (snapshots int, failed error) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		seen, err := inspect.ReadAll(ctx)
		for _, x := range seen {
			if x.Snapshot == nil {
				err = cmp.Or(err, x.Err)
				continue
			}
			for _, p := range workers {
				if x.Snapshot.Process.PID == p.PID() {
					snapshots++
				}
			}
		}
		return snapshots, err
	})
}

// poll calls f at once, while what it reads is sure to be there, and then every second while it is the turn, until stop,
// which waits until it has ended and returns what if f has read nothing.
func poll(t turns, what string, f func(context.Context) (read int, err error)) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	quit, done := make(chan struct{}), make(chan struct{})
	var all atomic.Int64
	var failed error
	look := func() {
		n, err := f(ctx)
		if all.Add(int64(n)); err != nil && failed == nil {
			failed = err
		}
	}
	go func() {
		defer close(done)
		look()
		last := int64(0)
		timer := time.NewTimer(t.wait(worker.Now(), last))
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
			case <-quit:
				return
			}
			last = worker.Now()
			look()
			timer.Reset(max(0, t.wait(worker.Now(), last)))
		}
	}()
	return func() error {
		close(quit)
		if all.Load() > 0 {
			cancel()
		} // else the first is under way still: a run may be shorter than it takes
		<-done
		cancel()
		if all.Load() == 0 {
			return fmt.Errorf("%s: %w", what, cmp.Or(failed, errOver))
		}
		return nil // a worker that has just ended is no fault
	}
}

// errOver is why nothing could be read where nothing else failed.
var errOver = errors.New("they were gone before: measure for longer (-seconds)")

// read reads one page.
func read(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
