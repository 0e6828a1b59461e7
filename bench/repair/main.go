//go:build linux

// Command repair measures how fast Fanfare delivers and repairs over UDP
// multicast on loopback, with a publisher and a subscriber process, beside a
// raw socket's round trip in the same run:
//
//	go run ./bench/repair
//
// It prints one line a figure with its target, and exits with 1 when one is
// missed. No knob of the bus is touched.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/pubsub"
)

var (
	rate    = flag.Int("rate", 50000, "messages a second in the steady runs")
	size    = flag.Int("size", 64, "bytes a message")
	seconds = flag.Float64("seconds", 3, "length of each run")
	seed    = flag.Int("seed", 1, "seed of the injected loss")
	spin    = flag.Bool("spin", false, "the publisher waits for its next message spinning, not sleeping")
	asJSON  = flag.Bool("json", false, "print one JSON object")
	port    = flag.Int("port", 7490, "UDP port of the groups")
	rawOnly = flag.Bool("raw", false, "only measure the raw round trip")
	role    = flag.String("role", "", "internal: run as the publisher process")
)

func main() {
	flag.Parse()
	if flag.NArg() > 0 || *rate < 1 || *size < 16 || *seconds <= 0 {
		fmt.Fprintln(os.Stderr, "repair: want -rate >= 1, -size >= 16, -seconds > 0 and no arguments; see -h")
		os.Exit(2)
	}
	var err error
	switch *role {
	case "":
		err = run()
	case "steady", "tail":
		err = publish()
	case "echo":
		err = echo()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "repair:", err)
		os.Exit(1)
	}
}

// figure is one measured value with its target.
type figure struct {
	Name     string  `json:"name"`
	Micros   float64 `json:"us"`
	TargetUs float64 `json:"target_us,omitempty"`
	OK       bool    `json:"ok"`
}

func run() error {
	rtt, err := rawRTT()
	if err != nil {
		return fmt.Errorf("raw round trip: %w", err)
	}
	figures := []figure{{"raw socket round trip p50", rtt.at(50), 0, true}, {"raw socket round trip p99", rtt.at(99), 0, true}}
	if !*rawOnly {
		more, err := measure(rtt.at(50))
		if err != nil {
			return err
		}
		figures = append(figures, more...)
	}
	ok := true
	for _, f := range figures {
		ok = ok && f.OK
	}
	if *asJSON {
		out, _ := json.Marshal(struct {
			Figures []figure `json:"figures"`
			OK      bool     `json:"ok"`
		}{figures, ok})
		fmt.Println(string(out))
	} else {
		for _, f := range figures {
			mark, target := "", ""
			if f.TargetUs > 0 {
				target = fmt.Sprintf("target %8.0f us", f.TargetUs)
				mark = "ok"
				if !f.OK {
					mark = "MISSED"
				}
			}
			fmt.Printf("%-46s %9.1f us  %s  %s\n", f.Name, f.Micros, target, mark)
		}
	}
	if !ok {
		return fmt.Errorf("a target was missed")
	}
	return nil
}

func measure(rtt float64) ([]figure, error) {
	clean, err := subscribe("steady", "")
	if err != nil {
		return nil, err
	}
	lossy, err := subscribe("steady", fmt.Sprintf("loss=0.01,seed=%d", *seed))
	if err != nil {
		return nil, err
	}
	tail, err := subscribe("tail", fmt.Sprintf("loss=0.1,seed=%d", *seed))
	if err != nil {
		return nil, err
	}
	under := func(name string, us, target float64) figure { return figure{name, us, target, us <= target} }
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	rep := lossy.stats.Repair
	return []figure{
		{"one way, lossless, p50", clean.at(50), 0, true},
		{"one way, lossless, p99", clean.at(99), 0, true},
		{"one way, lossless, p99.9", clean.at(99.9), 0, true},
		// The median is the lossless one: within the spread of two runs.
		under("one way, 1 % loss, p50", lossy.at(50), 1.5*clean.at(50)),
		under("one way, 1 % loss, p99", lossy.at(99), 1000),
		{"one way, 1 % loss, p99.9", lossy.at(99.9), 0, true},
		under("gap visible to repaired, 1 % loss, p50", us(rep.P50), 5*rtt),
		under("gap visible to repaired, 1 % loss, p99", us(rep.P99), 20*rtt),
		// Lost, found, asked for and repaired: finding has 10 round trips and
		// 200 us, the repair 5 more.
		under("last message lost, to its delivery, p50", tail.late(50), 15*rtt+200),
	}, nil
}

// result is what a subscriber has measured.
type result struct {
	h     *hdrhistogram.Histogram // ns
	stats pubsub.Stats
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Minute), 3) }

func (r *result) at(q float64) float64 { return float64(r.h.ValueAtQuantile(q)) / 1e3 }

// late is the quantile of the messages that came with a repair: the slowest,
// as many as were repaired.
func (r *result) late(q float64) float64 {
	share := float64(r.stats.Groups[0].Repaired) / float64(r.h.TotalCount())
	return r.at(100 - share*(100-q))
}

// subscribe runs a publisher process and receives all it sends.
func subscribe(role, faults string) (*result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration((*seconds+30)*float64(time.Second)))
	defer cancel()
	bus, err := pubsub.Config{Faults: faults, Logger: quiet()}.Open(ctx, url())
	if err != nil {
		return nil, err
	}
	defer bus.Close()
	r := &result{h: newHistogram()}
	var fault error
	done := make(chan struct{})
	finish := sync.OnceFunc(func() { close(done) })
	next := uint64(0)
	_, err = bus.Handle("bench.repair", func(m pubsub.Message, err error) {
		switch {
		case err != nil:
			if e, ok := err.(*pubsub.PublisherEvent); !ok || e.Kind != pubsub.PublisherUp {
				if !ok || e.Kind != pubsub.PublisherEnded {
					fault = err
				}
				finish()
			}
			return
		case binary.LittleEndian.Uint64(m.Data) != next:
			fault = fmt.Errorf("message %d came as number %d", binary.LittleEndian.Uint64(m.Data), next)
			finish()
			return
		}
		next++
		d := monotonic() - int64(binary.LittleEndian.Uint64(m.Data[8:]))
		r.h.RecordValue(d)
	}, pubsub.PublisherEvents())
	if err != nil {
		return nil, err
	}
	child, err := start(role)
	if err != nil {
		return nil, err
	}
	defer child.stop()
	select {
	case <-done:
	case <-ctx.Done():
		fault = fmt.Errorf("%s: %w after %d messages", role, ctx.Err(), next)
	}
	r.stats = bus.Stats()
	return r, fault
}

func url() string { return fmt.Sprintf("udp://239.20.0.0/16?iface=lo&port=%d", *port) }

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// publish is the publisher process: open loop at the rate, or single messages
// far apart, each the last of its burst.
func publish() error {
	ctx := context.Background()
	bus, err := pubsub.Config{Logger: quiet()}.Open(ctx, url())
	if err != nil {
		return err
	}
	pub, err := bus.Publisher("bench.repair")
	if err != nil {
		return err
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		return err
	}
	gap := time.Second / time.Duration(*rate)
	n := int(*seconds * float64(*rate))
	if *role == "tail" {
		gap = 2 * time.Millisecond
		n = int(*seconds * float64(time.Second/gap))
	}
	msg := make([]byte, *size)
	begin := monotonic()
	for i := range n {
		due := begin + int64(i)*int64(gap)
		for monotonic() < due {
			if !*spin {
				nap(*role == "tail")
			}
		}
		binary.LittleEndian.PutUint64(msg, uint64(i))
		// Latency counts from when the message was due: a publisher that is
		// held up, or slept too long, must not hide it (coordinated omission).
		stamp := due
		if *role == "tail" {
			stamp = monotonic()
		}
		binary.LittleEndian.PutUint64(msg[8:], uint64(stamp))
		if err := pub.Publish(ctx, msg); err != nil {
			return err
		}
	}
	return bus.Close()
}

// child is a process of our own making.
type child struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func start(role string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "-role", role, "-rate", fmt.Sprint(*rate), "-size", fmt.Sprint(*size), "-seconds", fmt.Sprint(*seconds), "-port", fmt.Sprint(*port), fmt.Sprintf("-spin=%t", *spin))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, out: bufio.NewReader(out)}, nil
}

func (c *child) stop() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
