package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// scrapeEvery is how often metrics are read where they are served: far more
// often than Prometheus would.
const scrapeEvery = time.Second

// scrapeTimeout is how long one page may take.
const scrapeTimeout = 10 * time.Second

// scrape reads the metrics of workers as Prometheus does, until stop, which
// waits until it has ended. It is an error that metrics are served and not one page could
// be read.
func scrape(all ...*worker.Process) (stop func() error) {
	var from []string
	for _, p := range all {
		for _, address := range p.Metrics {
			from = append(from, "http://"+address+"/metrics")
		}
	}
	if len(from) == 0 {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	quit, done := make(chan struct{}), make(chan struct{})
	var pages atomic.Int64
	var failed error
	go func() {
		defer close(done)
		client := &http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		ticker := time.NewTicker(scrapeEvery)
		defer ticker.Stop()
		for {
			for _, url := range from {
				if err := read(ctx, client, url); err == nil {
					pages.Add(1)
				} else if failed == nil {
					failed = err
				}
			}
			select {
			case <-ticker.C:
			case <-quit:
				return
			}
		}
	}()
	return func() error {
		close(quit)
		if pages.Load() > 0 {
			cancel()
		} // else the first is under way still: a run may be shorter than it takes
		<-done
		cancel()
		if pages.Load() == 0 {
			return fmt.Errorf("metrics are served, and none could be read: %w", failed)
		}
		return nil // a worker that has just ended is no fault
	}
}

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
