package metricserver

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/prometheus/client_golang/prometheus"
)

func TestServe(t *testing.T) {
	before := runtime.NumGoroutine()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "A test."})
	c.Add(7)
	s, err := Serve("localhost:0", c)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("response %s, reading it: %v, want status 200", resp.Status, err)
	}
	for _, want := range []string{"test_total 7\n", "\ngo_goroutines ", "# HELP test_total A test.\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics do not have %q", want)
		}
	}
	if resp, err := client.Get("http://" + s.Addr() + "/other"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("another path: response %v, error %v, want status 404", resp, err)
	} else {
		resp.Body.Close()
	}
	client.CloseIdleConnections()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + s.Addr() + "/metrics"); err == nil {
		t.Error("a closed server responds")
	}
	client.CloseIdleConnections()
	testenv.AwaitGoroutines(t, before)
}

func TestServeErrors(t *testing.T) {
	if _, err := Serve("nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("address without a port: error %v, want one containing nowhere", err)
	}
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "A test."})
	if _, err := Serve("localhost:0", c, c); err == nil {
		t.Error("a duplicate collector is accepted")
	}
}
