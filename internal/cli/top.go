package cli

import (
	"context"
	"errors"
	"time"

	"golang.org/x/term"

	"github.com/fanfaremq/fanfare/internal/cli/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// topRun is the command top.
type topRun struct {
	o    top.Options
	once bool
	json bool
}

func (t *topRun) run(ctx context.Context, e *env) error {
	if err := socketsExist(t.o.Sockets); err != nil {
		return err
	}
	if t.once || t.json {
		return t.write(ctx, e)
	}
	_, in := terminal(e.stdin)
	_, out := terminal(e.stdout)
	if !in || !out {
		return usagef("standard input and output are no terminal: use -once, or -json")
	}
	return top.Run(ctx, e.stdin, e.stdout, t.o)
}

// socketsExist says which path that was given cannot be asked, or that no process can be.
// All commands that ask begin with it.
func socketsExist(paths []string) error {
	_, err := inspect.List(paths...)
	if err != nil && len(paths) > 0 {
		return usagef("no socket to ask at: %w", err)
	}
	return err
}

// write writes figures as text or JSON, once or for each interval.
func (t *topRun) write(ctx context.Context, e *env) error {
	before, err := t.o.Observe(ctx)
	if err != nil {
		return err
	}
	for {
		if len(before.Seen) == 0 && t.once {
			break // there are no rates to wait for
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(t.o.Interval):
		}
		now, err := t.o.Observe(ctx)
		if err != nil {
			return err
		}
		f := top.Between(before, now)
		if t.json {
			err = top.WriteJSON(e.stdout, f)
		} else if f.Total.Processes > 0 {
			err = top.Write(e.stdout, f, t.o.View, t.o.Filter, columnsOf(e.stdout))
		}
		if before = now; err != nil {
			return err
		}
		if t.once && len(now.Seen) > 0 {
			return unanswered(f.Failed)
		}
	}
	return errors.New(top.NoProcess(t.o.Where()))
}

// columnsOf is how wide a terminal is; what is none is as wide as may be.
func columnsOf(w any) int {
	if fd, ok := terminal(w); ok {
		if columns, _, err := term.GetSize(fd); err == nil && columns > 20 {
			return columns
		}
	}
	return 200
}
