package cli

import (
	"strings"
	"sync/atomic"
	"testing"
)

// countedWrites counts the writes.
type countedWrites struct {
	syncBuffer
	n atomic.Int64
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.syncBuffer.Write(p)
}

// Available messages are written together, because each write is a system call.
func TestSubWritesAvailableMessagesTogether(t *testing.T) {
	const lines = 10_000
	url, text := memURL(t), strings.Repeat("a line of some bytes\n", lines)
	in := &stuckReader{r: strings.NewReader(text), done: make(chan struct{})}
	pub := start(t, in, "pub", "-t", url, "-q", "x")
	var stdout countedWrites
	var stderr syncBuffer
	if code := Run(testContext(t), []string{"sub", "-t", url, "-q", "-from", "window", "-n", "10000", "x"}, nil, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d, want %d: %s", code, exitOK, stderr.String())
	}
	if got := stdout.String(); got != text {
		t.Errorf("%d bytes were written, want %d", len(got), len(text))
	}
	if n := stdout.n.Load(); n > lines/100 {
		t.Errorf("%d lines took %d writes, want at most %d", lines, n, lines/100)
	}
	close(in.done)
	pub.end(t, exitOK)
}
