package pubsub

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// operatorLog collects log lines at the levels that an operator sees.
type operatorLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *operatorLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}
func (l *operatorLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Level.String()+" "+r.Message)
	return nil
}
func (l *operatorLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *operatorLog) WithGroup(string) slog.Handler      { return l }

// with is the number of lines that contain text.
func (l *operatorLog) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// A publisher of a hundred topics in sixteen groups comes up and ends: the log has one line for each event, not one
// for each group.
func TestLogHasOneLineAPublisher(t *testing.T) {
	ctx := testContext(t)
	log := &operatorLog{}
	url := "mem://" + t.Name()
	subBus, pubBus := openBus(t, Config{Logger: slog.New(log)}, url), openBus(t, Config{}, url)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("t.%d", i))
	}
	sub, err := subBus.Subscribe(names[0], Topics(names[1:]...), PublisherEvents())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p := publisher(t, pubBus, name)
		wait(t, ctx, p, 1)
		publish(t, ctx, p, "x")
	}
	if groups := len(pubBus.Stats().Publications); groups < 2 {
		t.Fatalf("%d groups", groups)
	}
	if err := pubBus.Close(); err != nil {
		t.Fatal(err)
	}
	for ended, groups := 0, len(subBus.Stats().Groups); ended < groups; {
		if _, err := sub.Next(ctx); err != nil {
			if e, ok := err.(*PublisherEvent); !ok {
				t.Fatal(err)
			} else if e.Kind == events.PublisherEnded {
				ended++
			}
		}
	}
	if up, ended := log.with("INFO publisher up"), log.with("INFO publisher ended"); up != 1 || ended != 1 || len(log.lines) != 2 {
		t.Errorf("%d lines for publisher up, %d for publisher ended, all lines:\n%s", up, ended, strings.Join(log.lines, "\n"))
	}
}
