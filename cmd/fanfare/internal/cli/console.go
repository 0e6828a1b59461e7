package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
	"golang.org/x/time/rate"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

// console writes lines to standard error and, on a terminal, a status line below them. It is safe for concurrent use.
type console struct {
	name string // prefix of each line
	tty  bool
	fd   int

	others, gaps *limiter // for lines caused by other buses, and for gaps

	mu    sync.Mutex
	w     io.Writer
	shown bool // guarded by mu: the status line is on the screen
}

// limiter bounds the lines that other hosts on the network can cause: a burst, and then one a second.
type limiter struct {
	rate *rate.Limiter
	left atomic.Uint64 // lines left out since the last one that was written
}

const (
	linesAtOnce = 20
	gapsAtOnce  = maxGapsListed
	linesEvery  = time.Second
)

func newLimiter(atOnce int) *limiter {
	return &limiter{rate: rate.NewLimiter(rate.Every(linesEvery), atOnce)}
}

func newConsole(w io.Writer, name string) *console {
	fd, tty := terminal(w)
	return &console{name: name, w: w, tty: tty, fd: fd, others: newLimiter(linesAtOnce), gaps: newLimiter(gapsAtOnce)}
}

func terminal(w any) (fd int, ok bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// line writes a single line: line breaks and control characters in the arguments are replaced.
func (c *console) line(format string, args ...any) {
	text := printable(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	fmt.Fprintf(c.w, "%s: %s\n", c.name, text)
}

// peerLine is line for what another bus did. It is rate-limited; the next line gives the number left out.
func (c *console) peerLine(format string, args ...any) { c.limited(c.others, format, args) }

// gap is line for a gap, with its own rate limit.
func (c *console) gap(format string, args ...any) { c.limited(c.gaps, format, args) }

func (c *console) limited(l *limiter, format string, args []any) {
	if !l.rate.Allow() {
		l.left.Add(1)
		return
	}
	if left := l.left.Swap(0); left > 0 {
		format, args = format+" (%s left out before)", append(slices.Clip(args), count(left, "line"))
	}
	c.line(format, args...)
}

func printable(text string) string { return losses.Printable(text) }

// status replaces the status line. Without a terminal it does nothing.
func (c *console) status(text string) {
	if !c.tty {
		return
	}
	if width, _, err := term.GetSize(c.fd); err == nil && width > 1 && len(text) >= width {
		text = text[:width-1]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	io.WriteString(c.w, text)
	c.shown = true
}

func (c *console) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
}

func (c *console) erase() {
	if c.shown {
		io.WriteString(c.w, "\r\x1b[K")
		c.shown = false
	}
}

// logHandler writes the log of the bus to the console: warnings and errors, or all lines. It holds
// lines back while the bus is opened, until release, so that a mistake of the user yields one line.
// After that it drops what the command reports in its own words.
type logHandler struct {
	console *console
	level   slog.Level

	mu    sync.Mutex
	held  bool
	lines []string
	own   ownTexts
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l >= h.level
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	if h.drops(&r) {
		return nil
	}
	var b strings.Builder
	level := strings.ToLower(r.Level.String())
	if r.Level == slog.LevelWarn {
		level = "warning"
	}
	fmt.Fprintf(&b, "%s: %s", level, r.Message)
	sep := " ("
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, "%s%s=%v", sep, a.Key, a.Value)
		sep = ", "
		return true
	})
	if sep != " (" {
		b.WriteByte(')')
	}
	h.mu.Lock()
	held := h.held
	if held {
		h.lines = append(h.lines, b.String())
	}
	h.mu.Unlock()
	if !held {
		h.console.line("%s", b.String())
	}
	return nil
}

func (h *logHandler) drops(r *slog.Record) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.held && h.level == slog.LevelWarn && r.Level == slog.LevelWarn && h.own[r.Message]
}

// release stops holding lines back and writes them if show is set. From then on quiet lets only errors pass; otherwise
// warnings in own are dropped.
func (h *logHandler) release(show, quiet bool, own ownTexts) {
	h.mu.Lock()
	lines := h.lines
	h.held, h.lines, h.own = false, nil, own
	if h.level == slog.LevelWarn && quiet {
		h.level = slog.LevelError
	}
	h.mu.Unlock()
	if !show {
		return
	}
	for _, l := range lines {
		h.console.line("%s", l)
	}
}

// WithAttrs and WithGroup implement slog.Handler; the bus does not use them.
func (h *logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *logHandler) WithGroup(string) slog.Handler      { return h }

// outWriter writes to a pipe. Its reader may have stopped reading. A write waits for the reader
// until the context end is done, and outGrace longer; then it fails, and so do all later writes.
//
// A separate goroutine does the writing until close. If a write is abandoned, the goroutine ends
// when that write returns, or with the process.
type outWriter struct {
	end       context.Context
	todo      chan []byte
	done      chan written
	abandoned bool
}

type written struct {
	n   int
	err error
}

const outGrace = time.Second // how long the reader may take for the rest when a command ends

var errUnread = errors.New("the reader of the output has stopped reading: the last part was not written")

func newOutWriter(end context.Context, w io.Writer) *outWriter {
	o := &outWriter{end: end, todo: make(chan []byte), done: make(chan written, 1)}
	go func() {
		for p := range o.todo {
			n, err := w.Write(p)
			o.done <- written{n, err}
		}
	}()
	return o
}

// Write implements io.Writer. After errUnread p must not be modified: the abandoned write may still use it.
func (o *outWriter) Write(p []byte) (int, error) {
	if o.abandoned {
		return 0, errUnread
	}
	o.todo <- p
	select {
	case x := <-o.done:
		return x.n, x.err
	case <-o.end.Done():
	}
	grace := time.NewTimer(outGrace)
	defer grace.Stop()
	select {
	case x := <-o.done:
		return x.n, x.err
	case <-grace.C:
		o.abandoned = true
		return 0, errUnread
	}
}

func (o *outWriter) close() { close(o.todo) }
