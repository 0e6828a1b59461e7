package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Wrong usage of bench yields one line with a remedy, and starts no process.
func TestBenchWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, wantText string }{
		{"bench", "throughput, latency"},
		{"bench fast", `"fast" is not a valid scenario`},
		{"bench latency idle", "one scenario"},
		{"bench throughput -transport smoke", "udp, shm, mem, roce, sim"},
		{"bench throughput -size 8", "from 24"},
		{"bench throughput -size big", "whole number"},
		{"bench throughput -mtu 9001K", "-mtu"},
		{"bench throughput -mtu 1", "512"},
		{"bench throughput -transport roce -mtu 8K", "4096"},
		{"bench throughput -transport sim -mtu 64K", "4096"},
		{"bench throughput -iface nosuch0", "nosuch0"},
		{"bench latency -rate 1e8", "1e+07"},
		{"bench throughput -subs 0", "-subs 0"},
		{"bench throughput -loss 5", "0.01 is one packet in a hundred"},
		{"bench throughput -loss NaN", "-loss"},
		{"bench throughput -runs 0", "-runs 0"},
		{"bench throughput -seconds -1", "-seconds -1"},
		{"bench throughput -baseline raw,fast", "channel, naive, raw, ring, udp"},
		{"bench throughput -transport sim -baseline raw", "udp, shm, roce"},
		{"bench throughput -baseline udp", "roce"},
		{"bench throughput -target much", "-target"},
		{"bench throughput -baseline none -target 0.6", "select one"},
		{"bench latency -target 0.6", "-target has no effect in latency"},
		{"bench latency -wildcard -topics 4 -subs 2 -split", "-wildcard subscribes to all topics"},
		{"bench loss -wildcard", "-wildcard is only for throughput and latency"},
		{"bench loss -loss 0.3", "-loss has no effect in loss"},
		{"bench loss -baseline raw", "-baseline has no effect in loss"},
		{"bench throughput -transport mem -iface lo", "-iface has no effect with -transport mem"},
		{"bench throughput -t udp://?size=9000 -mtu 1472", "-mtu 1472 contradicts size=9000"},
		{"bench throughput -t udp://?size=90000", "-mtu 90000"},
		{"bench throughput -html -", "-html needs a file name"},
		{"bench throughput -t udp://?iface=nosuch0", "nosuch0"},
		{"bench throughput -t udp://?iface=lo -iface eth0", "-iface eth0 contradicts iface=lo"},
		{"bench throughput -t roce://nosuch0", "nosuch0"},
		{"bench throughput -t udp://?foo=1", "foo"},
		{"bench throughput -t mem://x?foo=1", "foo"},
		{"bench throughput -t udp://?port=99999", "99999"},
		{"bench throughput -metrics nowhere.invalid:0", "-metrics"},
		{"bench aims -transport mem", "-transport has no effect in aims"},
		{"bench latency -size 65472 -baseline raw", "65471"},
		{"bench throughput -topics 0", "-topics 0 must be from 1"},
		{"bench throughput -topics many", "whole number"},
		{"bench throughput -topics 4 -order random", "round, zipf, bursts"},
		{"bench throughput -order zipf", "-order has no effect with one topic"},
		{"bench throughput -topics 8 -split", "add -subs"},
		{"bench throughput -subs 4 -split", "at least 4"},
		{"bench throughput -topics 8 -baseline naive", "naive does not support -topics"},
		{"bench throughput -topics 8 -baseline raw -size 1421", "at most 1420 bytes"},
		{"bench latency -topics 8 -baseline raw", "in throughput only"},
		{"bench throughput -pubs 8 -baseline naive", "naive does not support -pubs"},
		{"bench latency -pubs 8", "-pubs has no effect in latency"},
		{"bench idle -topics 8", "-topics is only for throughput and latency"},
		{"bench aims -split", "-split is only for throughput and latency"},
		{"bench idle -keys", "-keys is only for throughput and latency, and loss"},
		{"bench throughput -receive never", "handle, messages, batch"},
		{"bench latency -wait long", "adaptive, park, spin"},
		{"bench latency -publisher-wait slow", "spin, park"},
		{"bench latency -rate 0", "-rate 0"},
		{"bench throughput -check none", "sample, all"},
		{"bench throughput -metrics :9464", "separate ports"},
		{"bench throughput -cpuprofile nowhere", "directory"},
		{"bench throughput -html /does/not/exist.html", "exist.html"},
		{"bench throughput -t mem://x -transport udp", "udp://"},
		{"bench throughput -nope", "-nope"},
	} {
		r := runWith(t.Context(), "", strings.Fields(c.args)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("fanfare %s\nexit code %d, standard output %q, standard error %q; want 2, nothing, and one line with %q", c.args, r.code, r.stdout, r.stderr, c.wantText)
		}
	}
}

// A failed bench leaves the existing report unchanged.
func TestFailedBenchKeepsOldReport(t *testing.T) {
	t.Parallel() // the test mostly waits
	programOnly(t)
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "bench", "throughput", "-runs", "1", "-seconds", "60", "-baseline", "none", "-html", path)
	children := fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid)
	for measuring := false; !measuring; time.Sleep(time.Millisecond) {
		all, _ := filepath.Glob(children) // proc_pid_children(5)
		if len(all) == 0 && runtime.GOOS != "linux" {
			t.Skip("only Linux lists the children of a process in /proc")
		}
		if len(all) == 0 {
			t.Fatalf("%s does not exist: the bench has ended, or the kernel was built without CONFIG_PROC_CHILDREN", children)
		}
		for _, of := range all {
			b, _ := os.ReadFile(of)
			measuring = measuring || len(b) > 0
		}
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.end(t, 130)
	if p.stdout.String() != "" {
		t.Errorf("standard output %q, want none", p.stdout.String())
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "before" {
		t.Errorf("the old report is %q, error %v, want %q", b, err, "before")
	}
}

// The commands that scripts rely on, run as processes.
func TestBenchProcesses(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	programOnly(t)
	if runtime.GOOS != "linux" {
		t.Skip("the raw baseline needs the UDP GSO and GRO of Linux")
	}
	html := filepath.Join(t.TempDir(), "report.html")
	p := spawn(t, strings.Fields("bench throughput -transport udp -mtu 1472 -size 64 -subs 1 -loss 0 -runs 1 -seconds 0.2 -baseline raw,naive -json -html "+html)...)
	p.end(t, exitOK)
	var got map[string]any
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil {
		t.Fatalf("bench throughput writes no JSON object: %v in %s", err, p.stdout.String())
	}
	for _, contender := range []string{"ours", "raw", "naive"} {
		for _, what := range []string{"msgs_per_s", "bytes_per_s", "cpu_s_per_mmsg"} {
			spread, _ := got[contender].(map[string]any)[what].(map[string]any)
			for _, of := range []string{"min", "median", "max"} {
				if x, _ := spread[of].(float64); x <= 0 {
					t.Errorf("%s.%s.%s is %v, want a number above 0", contender, what, of, spread[of])
				}
			}
		}
	}
	for _, key := range []string{"ratio_raw", "ratio_naive", "lost", "gaps", "allocs_per_msg"} {
		if _, ok := got[key].(float64); !ok {
			t.Errorf("%s is %v, want a number", key, got[key])
		}
	}
	if s := plainStderr(&p.stderr); s != "" {
		t.Errorf("standard error %q, want nothing", s)
	}
	page, err := os.ReadFile(html)
	if err != nil || !strings.Contains(string(page), "<!doctype html>") || !strings.Contains(string(page), "default-src 'none'") {
		t.Errorf("report of %d bytes, error %v, want an HTML page with a content policy", len(page), err)
	}

	p = spawn(t, strings.Fields("bench latency -rate 20000 -size 64 -wait park -loss 0.01 -baseline raw -runs 1 -seconds 0.2 -json")...)
	p.end(t, exitOK)
	got = nil
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil {
		t.Fatalf("bench latency writes no JSON object: %v in %s", err, p.stdout.String())
	}
	for _, contender := range []string{"ours", "raw"} {
		for _, what := range []string{"p50_us", "p99_us", "p999_us", "max_us"} {
			if x, _ := got[contender].(map[string]any)[what].(float64); x <= 0 {
				t.Errorf("%s.%s is %v, want a number above 0", contender, what, x)
			}
		}
	}

	// Without -json it is a table.
	p = spawn(t, strings.Fields("bench throughput -transport mem -runs 1 -seconds 0.05")...)
	p.end(t, exitOK)
	if text := p.stdout.String(); !strings.Contains(text, "ours") || !strings.Contains(text, "channel") {
		t.Errorf("standard output %q, want lines of ours and channel", text)
	}

	// A permanent loss is reported and makes the bench fail. With more loss the publisher itself may
	// be declared lost, without a heartbeat for a second, and there is no result.
	p = spawn(t, strings.Fields("bench throughput -transport mem -runs 1 -seconds 0.2 -loss 0.3 -baseline none -json")...)
	<-p.waited
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil {
		t.Fatalf("standard output is no JSON object: %v in %s; standard error %s", err, p.stdout.String(), p.stderr.String())
	}
	lost := got["lost"].(float64)
	if code := p.cmd.ProcessState.ExitCode(); (code == exitIncomplete) != (lost > 0) || strings.Contains(p.stderr.String(), "lost permanently") != (lost > 0) {
		t.Errorf("%v messages lost: exit code %d, standard error %q, want code %d exactly if messages were lost", lost, code, p.stderr.String(), exitIncomplete)
	}
}

// -metrics serves the counters of the bus while the command runs.
func TestMetricsFlag(t *testing.T) {
	url := memURL(t)
	sub := start(t, strings.NewReader(""), "sub", "-t", url, "-metrics", "localhost:0", "-n", "1", "news")
	at := regexp.MustCompile(`http://\S+/metrics`)
	var where string
	for where == "" {
		where = at.FindString(sub.stderr.String())
		select {
		case <-sub.done:
			t.Fatalf("sub has ended: %s", sub.stderr.String())
		case <-time.After(time.Millisecond):
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(where)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(text), "fanfare_transport_received_packets_total") {
		t.Errorf("metrics lack fanfare_transport_received_packets_total: error %v, text %.200s", err, text)
	}
	if r := runWith(testContext(t), "hello\n", "pub", "-t", url, "-wait", "1", "-silence", patience, "-q", "-metrics", "localhost:0", "news"); r.code != exitOK {
		t.Errorf("pub ended with %+v, want exit code %d", r, exitOK) // it may report that the subscriber, which wants one message, has left
	}
	sub.end(t, exitOK)
	if _, err := client.Get(where); err == nil {
		t.Error("metrics are still served after the end")
	}
	r := runWith(t.Context(), "", "ping", "-t", url, "-metrics", "nowhere")
	if r.code != exitUsage || !strings.Contains(r.stderr, "nowhere") {
		t.Errorf("ping with an invalid metrics address: %+v, want exit code %d", r, exitUsage)
	}
}
