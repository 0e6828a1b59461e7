package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// Printer shows frames. It is not safe for concurrent use.
type Printer struct {
	w     io.Writer
	size  func() (width, height int) // of the terminal, nil without one
	drawn int                        // lines on the terminal to be replaced by the next frame
	err   error                      // the first write error
}

// New returns a printer for f: in place if f is a terminal, otherwise in plain lines.
func New(f *os.File) *Printer {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return NewPlain(f)
	}
	return &Printer{w: f, size: func() (int, int) {
		width, height, err := term.GetSize(fd)
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}}
}

// NewPlain returns a printer that writes one line for each frame.
func NewPlain(w io.Writer) *Printer { return &Printer{w: w} }

// Live reports whether frames are redrawn in place, so that they may be frequent.
func (p *Printer) Live() bool { return p.size != nil }

// Err returns the first write error.
func (p *Printer) Err() error { return p.err }

// Show shows a frame, on a terminal in place of the previous one.
func (p *Printer) Show(f *Frame) {
	if p.size == nil {
		p.write([]byte(Line(f) + "\n"))
		return
	}
	width, height := p.size()
	p.redraw(Table(f), width, height)
}

// Final writes the complete table below everything else, on a terminal or not.
func (p *Printer) Final(f *Frame) {
	if p.size != nil {
		width, _ := p.size()
		p.redraw(Table(f), width, 1<<30)
		p.drawn = 0
		return
	}
	p.write([]byte(Table(f)))
}

// redraw replaces the previous text, truncated to the size of the terminal: it could not replace
// lines that wrap or scroll away.
func (p *Printer) redraw(text string, width, height int) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height-1 {
		lines = lines[:max(height-1, 0)]
	}
	var b bytes.Buffer
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.drawn) // up to the first line
	}
	for _, l := range lines {
		if r := []rune(l); len(r) > width {
			l = string(r[:width])
		}
		b.WriteString(l)
		b.WriteString("\x1b[K\n") // and clear the rest of the line
	}
	b.WriteString("\x1b[J") // and the lines below
	p.drawn = len(lines)
	p.write(b.Bytes())
}

func (p *Printer) write(b []byte) {
	if _, err := p.w.Write(b); err != nil && p.err == nil {
		p.err = err
	}
}

// Line formats a frame as one line, without a newline.
func Line(f *Frame) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1fs published %d of %d (%s/s)", f.Elapsed.Seconds(), f.Published, f.Total, Count(f.Rate))
	if len(f.Subscribers) > 0 {
		fewest, worst := f.Subscribers[0].Messages, Percentiles{}
		var gaps, repairs uint64
		for _, s := range f.Subscribers {
			fewest = min(fewest, s.Messages)
			worst.P50 = max(worst.P50, s.Latency.P50)
			worst.P99 = max(worst.P99, s.Latency.P99)
			gaps += s.Gaps
			repairs += s.Repairs
		}
		fmt.Fprintf(&b, ", %d subscribers have at least %d, latency p50 %s p99 %s, repairs %d, gaps %d",
			len(f.Subscribers), fewest, Duration(worst.P50), Duration(worst.P99), repairs, gaps)
	}
	if len(f.Top) > 0 {
		r := f.Top[0]
		fmt.Fprintf(&b, ", %s %s / %s", r.Symbol, price(r.Bid), price(r.Ask))
	}
	return b.String()
}

// Table formats a frame as several lines: the top of book of the busiest symbols, then the subscribers.
func Table(f *Frame) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%.1f s   published %d of %d (%.0f %%)   %s messages/s\n",
		f.Elapsed.Seconds(), f.Published, f.Total, 100*float64(f.Published)/float64(f.Total), Count(f.Rate))

	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(f.Top) > 0 {
		fmt.Fprintln(t, "\nsymbol\tbid size\tbid\task\task size\tmessages\t")
		for _, r := range f.Top {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t\n", r.Symbol, size(r.Bid), price(r.Bid), price(r.Ask), size(r.Ask), r.Messages)
		}
		t.Flush()
	}
	if len(f.Subscribers) > 0 {
		// Within 80 columns, the most important columns first.
		fmt.Fprintln(t, "\nsubscriber\tmessages\trate/s\trepairs\tgaps\tlost\tp50\tp99\tp99.9\tmax\t")
		for i, s := range f.Subscribers {
			l := s.Latency
			fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", i+1, s.Messages, Count(s.Rate),
				s.Repairs, s.Gaps, s.Lost,
				Duration(l.P50), Duration(l.P99), Duration(l.P999), Duration(l.Max))
		}
		t.Flush()
	}
	return b.String()
}

func price(l book.Level) string {
	if l.Orders == 0 {
		return "-"
	}
	// Cents are enough: finer prices exist only below one dollar.
	if l.Price%100 == 0 {
		return fmt.Sprintf("%d.%02d", l.Price/10000, l.Price%10000/100)
	}
	return l.Price.String()
}

func size(l book.Level) string {
	if l.Orders == 0 {
		return "-"
	}
	return fmt.Sprint(l.Shares)
}

// Duration formats a latency with three digits and its unit.
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return digits(float64(d)/1e3) + " µs"
	case d < time.Second:
		return digits(float64(d)/1e6) + " ms"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func digits(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// Count formats a number, in thousands or millions if that is shorter.
func Count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1f k", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}
