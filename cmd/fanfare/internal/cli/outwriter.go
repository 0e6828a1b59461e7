package cli

import (
	"context"
	"errors"
	"io"
	"time"
)

// outWriter writes to what somebody else reads, or does not: a pipe. A write waits for the
// reader as long as end lasts, and outGrace longer. Then it gives up, and so do all that
// follow.
//
// The writing is done by a goroutine of its own, until close. One that has been given up
// ends with the write, or with the process.
type outWriter struct {
	end   context.Context
	todo  chan []byte
	done  chan written
	given bool // up
}

type written struct {
	n   int
	err error
}

// outGrace is how long a reader is given to take what is left when a command is to end.
const outGrace = time.Second

// errUnread says that a write was given up.
var errUnread = errors.New("nobody reads the output: the last of it is not written")

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

// Write implements io.Writer. p must not change after it was given up.
func (o *outWriter) Write(p []byte) (int, error) {
	if o.given {
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
		o.given = true
		return 0, errUnread
	}
}

func (o *outWriter) close() { close(o.todo) }
