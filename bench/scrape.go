package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

const (
	// scrapeEvery is the interval of reading metrics, far shorter than that of Prometheus, and
	// snapshots, as fanfare top does; scrapeTimeout is the limit for each.
	scrapeEvery   = time.Second
	scrapeTimeout = 10 * time.Second
)

// watch reads metrics and snapshots of workers immediately and then every second, as their
// specification says, until stop. It is an error if none could be read.
func (o *outcome) watch(all ...*worker.Process) (stop func() error) {
	if o.spec.Metrics == "" && !o.spec.Inspected {
		return func() error { return nil }
	}
	client := &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{}}
	pages, snapshots, failed := 0, 0, errors.New("the workers had already ended")
	scrape := func() {
		for _, p := range all {
			for _, address := range p.Metrics {
				if err := read(client, "http://"+address+"/metrics"); err != nil {
					failed = err
					continue
				}
				pages++
			}
		}
		if o.spec.Inspected {
			n, err := snapshotsOf(all)
			if snapshots += n; err != nil {
				failed = err
			}
		}
	}
	var done sync.WaitGroup
	quit := make(chan struct{})
	done.Go(func() {
		for {
			scrape()
			select {
			case <-time.After(scrapeEvery):
			case <-quit:
				return
			}
		}
	})
	return func() error {
		close(quit)
		done.Wait()
		client.CloseIdleConnections()
		if o.spec.Metrics != "" && pages == 0 || o.spec.Inspected && snapshots == 0 {
			return fmt.Errorf("only %d pages of metrics and %d snapshots of workers could be read (measure for longer with -seconds): %w", pages, snapshots, failed)
		}
		return nil // a worker that has just ended is no error
	}
}

// snapshotsOf reads snapshots of all processes of this host, and returns the number of those of workers.
func snapshotsOf(workers []*worker.Process) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	seen, err := inspect.ReadAll(ctx)
	for _, x := range seen {
		if x.Snapshot == nil {
			err = cmp.Or(err, x.Err)
		} else if slices.ContainsFunc(workers, func(p *worker.Process) bool { return p.PID() == x.Snapshot.Process.PID }) {
			n++
		}
	}
	return n, err
}

// read reads one page.
func read(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return err
}
