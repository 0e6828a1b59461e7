package cli

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/term"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// topRun is the command top.
type topRun struct {
	looked
	o    top.Options
	once bool
	json bool
}

func (t *topRun) run(ctx context.Context, e *env) error {
	read, closeIt, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer closeIt()
	t.o.Read = read
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

// placeAdvice is the end of the error where an operand is no place.
const placeAdvice = "a place is the socket of a process, or a directory with some; for other hosts see their metrics in Prometheus, or run the command there by ssh"

// placesExist says which place that was given cannot be asked, or that no process can be.
// All commands that ask begin with it.
func placesExist(places []string) error {
	_, err := inspect.List(places...)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("no socket to ask at: %w: %s", err, placeAdvice)
	}
	if err != nil && len(places) > 0 {
		return usagef("no socket to ask at: %w", err)
	}
	return err
}

// listenFirst is how long -once listens before it looks: who has nothing to say is heard once a
// second, and tells its topics then.
const listenFirst = 2500 * time.Millisecond

// write writes figures as text or JSON, once or for each interval.
func (t *topRun) write(ctx context.Context, e *env) error {
	if t.once && len(t.urls) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(listenFirst):
		}
	}
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
