package bench

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// scrapeEvery is how often metrics are read where they are served: far more
// often than Prometheus would.
const scrapeEvery = time.Second

// scrape reads the metrics of workers as Prometheus does, until stop, which
// waits until it has ended.
func scrape(all []*worker.Process) (stop func()) {
	var from []string
	for _, p := range all {
		if p.Metrics != "" {
			from = append(from, "http://"+p.Metrics+"/metrics")
		}
	}
	if len(from) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		ticker := time.NewTicker(scrapeEvery)
		defer ticker.Stop()
		for {
			for _, url := range from {
				read(ctx, client, url)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// read reads one page. A worker that has just ended is no fault.
func read(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
