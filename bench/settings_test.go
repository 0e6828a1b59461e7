package bench

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/worker"
)

func TestSettingsCheck(t *testing.T) {
	known := testContenders()
	for name, spoil := range map[string]func(*Settings){
		"-transport":                   func(s *Settings) { s.Transport = "smoke" },
		"-size":                        func(s *Settings) { s.Size = 3 },
		"-mtu":                         func(s *Settings) { s.MTU = 70000 },
		"-subs":                        func(s *Settings) { s.Subs = 0 },
		"-loss":                        func(s *Settings) { s.Loss = 1 },
		"-runs":                        func(s *Settings) { s.Runs = 0 },
		"-seconds":                     func(s *Settings) { s.Seconds = 0 },
		"-rate":                        func(s *Settings) { s.Rate = -1 },
		"rcvbuf":                       func(s *Settings) { s.RecvBuf = 1 },
		"-t ":                          func(s *Settings) { s.URL = "mem://x" },
		"is not one of":                func(s *Settings) { s.Baselines = []string{"fanfare"} },
		"within a process":             func(s *Settings) { s.Baselines = []string{"channel"} },
		"between processes":            func(s *Settings) { *s = Defaults("mem"); s.Baselines = []string{"naive"} },
		"only for comparison with":     func(s *Settings) { *s = Defaults("sim"); s.Baselines = []string{"raw"} },
		"and one topic":                func(s *Settings) { s.Baselines = []string{"ring"} },
		"complete messages in a block": func(s *Settings) { *s = Defaults("shm"); s.Size = 1 << 16; s.Baselines = []string{"ring"} },
		"not 100":                      func(s *Settings) { *s = Defaults("mem"); s.Size = 100; s.Baselines = []string{"channel"} },
		"other transports":             func(s *Settings) { s.Baselines = []string{"udp"} },
		"-target -1":                   func(s *Settings) { s.Target = -1 },
		"select one":                   func(s *Settings) { s.Target = 0.6 },
		"at most 65471 bytes":          func(s *Settings) { s.Size = 65472; s.Baselines = []string{"raw"} },
		"-topics 0":                    func(s *Settings) { s.Topics = 0 },
		"round, zipf, bursts":          func(s *Settings) { s.Order = "random" },
		"-goroutines 0":                func(s *Settings) { s.Goroutines = 0 },
		"-pubs 65":                     func(s *Settings) { s.Buses = 65 },
		"-extra-subscriptions":         func(s *Settings) { s.Extra = -1 },
		"subscribers can":              func(s *Settings) { s.Topics, s.Buses = 100_000, 64 },
		"add -subs":                    func(s *Settings) { s.Topics, s.Split = 8, true },
		"at least 4":                   func(s *Settings) { s.Subs, s.Split = 4, true },
		"in throughput only":           func(s *Settings) { s.Topics, s.Baselines = 8, []string{"raw"} },
		"naive does not support -topics": func(s *Settings) {
			s.Topics, s.Baselines = 8, []string{"naive"}
		},
		"channel does not support -extra-subscriptions": func(s *Settings) {
			*s = Defaults("mem")
			s.Extra, s.Baselines = 8, []string{"channel"}
		},
		"one datagram for each message": func(s *Settings) { s.Size = 1 << 17; s.Baselines = []string{"naive"} },
	} {
		s := Defaults("udp")
		if err := s.Check("latency", known); err != nil {
			t.Fatal(err)
		}
		if spoil(&s); s.Check("latency", known) == nil || !strings.Contains(s.Check("latency", known).Error(), name) {
			t.Errorf("with a wrong %s Check fails with %v, want its name", name, s.Check("latency", known))
		}
	}
}

// Nothing is sent on an interface that was not selected, and options missing in a URL come from the settings.
func TestFabric(t *testing.T) {
	for _, c := range []struct{ transport, url, want string }{
		{"udp", "", "udp://239.20.0.0/16?iface=IF&port=4711&rcvbuf=8388608&size=1472&sndbuf=2097152"},
		{"udp", "udp://", "udp://239.20.0.0/16?iface=IF&port=4711&rcvbuf=8388608&size=1472&sndbuf=2097152"},
		{"udp", "udp://239.1.2.3?port=7000", "udp://239.1.2.3?iface=IF&port=7000&rcvbuf=8388608&size=1472&sndbuf=2097152"},
		{"udp", "udp://239.1.2.3:7000/32", "udp://239.1.2.3:7000/32?iface=IF&rcvbuf=8388608&size=1472&sndbuf=2097152"},
		{"udp", "udp://?iface=eth7&size=9000&rcvbuf=65536", "udp://239.20.0.0/16?iface=eth7&port=4711&rcvbuf=65536&size=9000&sndbuf=2097152"},
		{"roce", "", "roce://IF/239.39.103.0/24?rcvbuf=8388608&size=1472&sndbuf=2097152"},
		{"roce", "roce://", "roce://IF/239.39.103.0/24?rcvbuf=8388608&size=1472&sndbuf=2097152"},
		{"roce", "roce://eth7?size=1024", "roce://eth7/239.39.103.0/24?rcvbuf=8388608&size=1024&sndbuf=2097152"},
		{"shm", "", "shm://bench-4711?size=8192"},
		{"mem", "", "mem://bench-4711?size=8192"},
		{"mem", "mem://x?size=900", "mem://x?size=900"},
		{"sim", "sim://x?loss=0.1", "sim://x?loss=0.1&size=1472"},
	} {
		s := Defaults(c.transport)
		s.URL = c.url
		want := strings.ReplaceAll(c.want, "IF", s.Interface)
		if got, err := s.fabric(4711); err != nil || got != want {
			t.Errorf("%s %q becomes %q, %v; want %q", c.transport, c.url, got, err, want)
		}
	}
	s := Defaults("udp")
	for url, ok := range map[string]bool{"": true, "udp://?foo=1": false, "udp://?size=abc": false, "udp://?port=99999": false} {
		s.URL = url
		if err := s.Try(t.Context()); (err == nil) != ok {
			t.Errorf("Try of URL %q: error %v, want success: %v", url, err, ok)
		}
	}
}

func TestSpread(t *testing.T) {
	if got := spreadOf([]float64{3, 1, 2}); got != (Spread{1, 2, 3}) {
		t.Errorf("spread of 3, 1 and 2 is %v, want 1, 2, 3", got)
	}
	if got := spreadOf([]float64{4, 1, 3, 2}); got != (Spread{1, 2, 4}) {
		t.Errorf("spread of 4, 1, 3 and 2 is %v, want 1, 2, 4", got)
	}
	if got := spreadOf(nil); got != (Spread{}) {
		t.Errorf("spread of nothing is %v, want zeros", got)
	}
	// Neighbouring runs are compared, not medians.
	if got := spreadOf(ratios([]float64{10, 2, 30}, []float64{5, 2, 10})); got != (Spread{1, 2, 3}) {
		t.Errorf("spread of the ratios is %v, want 1, 2, 3", got)
	}
	if got := spreadOf(ratios([]float64{1}, []float64{0})); got != (Spread{}) {
		t.Errorf("spread of a ratio to zero is %v, want zeros", got)
	}
}

// Results list ours first, then its variants, the baselines, and others by name.
func TestOrderOfContestants(t *testing.T) {
	runs := make(map[string][]*outcome)
	for _, key := range []string{"zmq", "naive", "ours", "metrics", "nats", "udp", "raw", "one"} {
		runs[key] = []*outcome{{pub: new(worker.Report)}}
	}
	p := (&Bench{}).point(fullMetrics, runs)
	if got := strings.Join(p.Keys(), " "); got != "ours one metrics raw naive udp nats zmq" {
		t.Errorf(`keys %q, want "ours one metrics raw naive udp nats zmq"`, got)
	}
	for key, want := range map[string]bool{"ours": true, "lossless": true, "raw": false, "udp": false, "nats": false} {
		if IsOurs(key) != want {
			t.Errorf("%s is ours: %t", key, !want)
		}
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999: "999", 1234: "1.23k", 12.3e6: "12.3M", 4e9: "4G"} {
		if got := Short(x); got != want {
			t.Errorf("short text of %g is %q, want %q", x, got, want)
		}
	}
}
