package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
)

type loss struct {
	since   time.Duration
	follow  bool
	json    bool
	quiet   bool
	sockets []string
}

const (
	lossEvery    = time.Second     // interval of loss -follow
	answerWithin = 2 * time.Second // time limit for the answer of a process
)

func (l *loss) run(ctx context.Context, e *env) error {
	if err := placesExist(l.sockets); err != nil {
		return err
	}
	seen, err := readAll(ctx, l.sockets...)
	now := time.Now()
	if err != nil && len(l.sockets) > 0 {
		return &usageError{fmt.Errorf("reading the processes: %w", pathError(err))}
	}
	if err != nil {
		return err
	}
	r := losses.Make(seen, now.Add(-l.since), now)
	if l.quiet {
		r.Findings = r.Of(losses.Lost)
	}
	if err := l.show(e, r); err != nil {
		return err
	}
	if l.follow {
		return l.followLosses(ctx, e, seen)
	}
	return l.verdict(r)
}

func readAll(ctx context.Context, places ...string) ([]inspect.Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return inspect.ReadAll(ctx, places...)
}

func (l *loss) verdict(r *losses.Report) error {
	gaps, _, _ := r.Messages()
	switch {
	case gaps > 0, r.Repairs.Lost > 0:
		return &exitError{exitLost, errReported}
	case len(r.Processes) == 0 && len(r.Unread) == 0:
		o := top.Options{Places: l.sockets}
		return errors.New(top.NoProcess(o.Where()) + " A process that has ended has no loss record any more: see its log.")
	case len(r.Unread) > 0:
		return fmt.Errorf("%s could not be read", count(len(r.Unread), "process"))
	}
	return nil
}

func (l *loss) show(e *env, r *losses.Report) error {
	if !l.json {
		if l.quiet && len(r.Findings) == 0 && r.Repairs.Lost == 0 || len(r.Processes)+len(r.Unread) == 0 {
			return nil
		}
		return r.WriteText(e.stdout)
	}
	lines := newJSONLines(e.stdout)
	for i := range r.Findings {
		if err := lines.write(&r.Findings[i]); err != nil {
			return err
		}
	}
	gaps, messages, unknown := r.Messages()
	return lines.write(&lossSummary{
		"summary", r.From, r.To, gaps, messages, unknown, r.Repairs.Missing, r.Repairs.Repaired, r.Repairs.Late, r.Repairs.Lost,
		append([]losses.Process{}, r.Processes...), append([]string{}, r.Unread...),
	})
}

type lossSummary struct {
	Type      string           `json:"type"` // "summary"
	From      time.Time        `json:"from"`
	To        time.Time        `json:"to"`
	Gaps      uint64           `json:"gaps"`
	Messages  uint64           `json:"messages"` // lost permanently, as far as known
	Unknown   uint64           `json:"gaps_unknown"`
	Missing   uint64           `json:"packets_missing"`
	Repaired  uint64           `json:"packets_repaired"`
	Late      uint64           `json:"packets_late"`
	Lost      uint64           `json:"packets_lost"`
	Processes []losses.Process `json:"processes"`
	Unread    []string         `json:"unread"` // sockets that could not be read, with the error
}

func (l *loss) followLosses(ctx context.Context, e *env, seen []inspect.Seen) error {
	news := losses.NewNews(seen, time.Now())
	if !l.json {
		e.console.line("waiting for further losses; interrupt to end")
	}
	for {
		if err := sleep(ctx, lossEvery); err != nil {
			return err
		}
		seen, err := readAll(ctx, l.sockets...)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		findings := news.Take(seen, time.Now())
		if l.quiet {
			findings = slices.DeleteFunc(findings, func(f losses.Finding) bool { return f.Kind != losses.Lost })
		}
		for i := range findings {
			if err := l.print(e, &findings[i]); err != nil {
				return err
			}
		}
	}
}

func (l *loss) print(e *env, f *losses.Finding) error {
	if l.json {
		return newJSONLines(e.stdout).write(f)
	}
	_, err := fmt.Fprintln(e.stdout, printable(f.Line()))
	return err
}

const exitLost = 3

func lossCommand() command {
	return command{
		name:    "loss",
		summary: "show what was lost on this host, when, why, and how to fix it",
		usage:   "fanfare loss [flags] [PLACE...]",
		about: `It asks all processes on this host that use Fanfare for their losses of the last hour:
each loss with its time, topic, publisher, subscription, cause and remedy, and packets
that were dropped on the network and repaired. Every process records losses itself, so
nothing has to run beforehand.

` + placeHelp,
		notes: `A stopped process cannot answer, and the record of a process that has ended is gone:
losses are not stored on disk. The log of such a process contains its losses, and its
publishers report that they no longer wait for it.

With -json each finding is an object {"type":"lost"|"event"|"dropped","cause":...,
"first":...,"last":...,"process":...,"do":...}; the last object is the summary.`,
		examples: `fanfare loss
fanfare loss -since 5m
fanfare loss -follow
fanfare loss -json | jq -r 'select(.type == "lost") | .do'`,
		exits: []word{{"3", "messages were lost permanently, or packets are missing and not yet reported to a subscription"}},
		exitNotes: `It is 0 when nothing was lost permanently, and 1 when not all processes could be read,
or there are none.`,
		flags: flagsOf(func() *loss { return new(loss) }),
	}
}

func (l *loss) register(fs *flagSet) {
	within(durationVar(fs, &l.since, "since", lossrecord.Kept, "only losses of the last D (such as 30s, 5m), at most an hour"), time.Second, lossrecord.Kept)
	boolVar(fs, &l.follow, "follow", "also print losses as they happen, until interrupted")
	boolVar(fs, &l.json, "json", jsonFindings)
	boolVar(fs, &l.quiet, "q", "print only permanent losses")
}

func (l *loss) check(_ *flagSet, operands []string) error {
	l.sockets = operands
	return nil
}
