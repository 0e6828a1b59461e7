package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

func frame() *Frame {
	return &Frame{
		Elapsed:   1500 * time.Millisecond,
		Published: 90_000,
		Total:     500_054,
		Rate:      60_123,
		Top: []Row{
			{"AAPL", book.Level{Price: 1234500, Shares: 700, Orders: 3}, book.Level{Price: 1234600, Shares: 200, Orders: 1}, 15_000},
			{"PENNY", book.Level{Price: 1234, Shares: 5, Orders: 1}, book.Level{}, 2},
		},
		Subscribers: []Subscriber{
			{Messages: 89_990, Rate: 60_000, Gaps: 1, Lost: 4, Repairs: 7, Latency: Percentiles{
				P50: 21 * time.Microsecond, P99: 310 * time.Microsecond, P999: 1200 * time.Microsecond, Max: 1500 * time.Millisecond}},
			{Messages: 89_000, Latency: Percentiles{P50: 950}},
		},
	}
}

func TestTable(t *testing.T) {
	const want = `1.5 s   published 90000 of 500054 (18 %)   60.1 k messages/s

  symbol  bid size     bid     ask  ask size  messages
    AAPL       700  123.45  123.46       200     15000
   PENNY         5  0.1234       -         -         2

  subscriber  messages  rate/s  repairs  gaps  lost      p50     p99   p99.9     max
           1     89990  60.0 k        7     1     4  21.0 µs  310 µs  1.2 ms  1.50 s
           2     89000       0        0     0     0   950 ns       -       -       -
`
	if got := Table(frame()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPlain(t *testing.T) {
	var b bytes.Buffer
	p := NewPlain(&b)
	p.Show(frame())
	p.Show(&Frame{Total: 3})
	const want = `  1.5s published 90000 of 500054 (60.1 k/s), 2 subscribers have at least 89000, latency p50 21.0 µs p99 310 µs, repairs 7, gaps 1, AAPL 123.45 / 123.46
  0.0s published 0 of 3 (0/s)
`
	if b.String() != want || p.Live() {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	p.Final(frame())
	if b.String() != Table(frame()) || strings.Contains(b.String(), "\x1b") {
		t.Errorf("final output %q, want the table without escape sequences", b.String())
	}
}

// On a terminal each frame replaces the previous one, no line is wider than the terminal, and the whole is not higher.
func TestTerminal(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{w: &b, size: func() (int, int) { return 30, 6 }}
	p.Show(frame())
	first := b.String()
	b.Reset()
	p.Show(frame())
	if second := b.String(); second != "\x1b[5A"+first {
		t.Errorf("first frame %q\nthen %q, want the same with the cursor moved up 5 lines", first, second)
	}
	if n := strings.Count(first, "\n"); n != 5 {
		t.Errorf("%d lines on a terminal of 6, want 5", n)
	}
	for line := range strings.Lines(first) {
		line = strings.TrimPrefix(line, "\x1b[J")
		if n := len([]rune(strings.TrimSuffix(line, "\x1b[K\n"))); n > 30 {
			t.Errorf("line has %d columns, want at most 30: %q", n, line)
		}
	}
	b.Reset()
	p.Final(frame())
	p.Show(frame())
	if !strings.HasPrefix(b.String(), "\x1b[5A") || strings.Count(b.String(), "\x1b[5A") != 1 {
		t.Errorf("the final frame does not replace the last one, or is overwritten: %q", b.String())
	}
	if !p.Live() {
		t.Error("a terminal does not count as live")
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteError(t *testing.T) {
	p := NewPlain(brokenPipe{})
	p.Show(frame())
	p.Final(frame())
	if p.Err() == nil || p.Err().Error() != "broken pipe" {
		t.Errorf("Err is %v, want broken pipe", p.Err())
	}
}

func TestLatencies(t *testing.T) {
	l := NewLatencies()
	if got := l.Percentiles(); got != (Percentiles{}) {
		t.Errorf("percentiles of no latencies: %+v, want zeroes", got)
	}
	for i := range 1000 {
		l.Record(time.Duration(i+1) * time.Microsecond)
	}
	got := l.Percentiles()
	near := func(d, want time.Duration) bool { return d > want-want/100 && d < want+want/100 }
	if !near(got.P50, 500*time.Microsecond) || !near(got.P99, 990*time.Microsecond) || !near(got.P999, 999*time.Microsecond) || got.Max != time.Millisecond {
		t.Errorf("percentiles %+v, want P50 500 µs, P99 990 µs, P999 999 µs (each within 1 %%) and Max 1 ms", got)
	}
	l = NewLatencies()
	l.Record(-time.Second)
	l.Record(time.Hour)
	if got := l.Percentiles(); got.Max != maxLatency || got.P50 != 0 {
		t.Errorf("percentiles of latencies beyond the ends: %+v, want P50 0 and Max %v", got, maxLatency)
	}
	if n := testing.AllocsPerRun(100, func() { l.Record(time.Millisecond) }); n != 0 {
		t.Errorf("Record makes %v allocations, want none", n)
	}
}

func TestDurationAndCount(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "-", 1: "1 ns", 1500: "1.5 µs", 150 * time.Microsecond: "150 µs", 2500 * time.Microsecond: "2.5 ms",
		250 * time.Millisecond: "250 ms", 90 * time.Second: "90.00 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 9999: "9999", 10_000: "10.0 k", 1.25e6: "1.25 M"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%v) = %q, want %q", n, got, want)
		}
	}
}
