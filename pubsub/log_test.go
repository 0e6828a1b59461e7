package pubsub

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A publisher of a hundred topics in sixteen groups comes up and ends: the logs of both sides have one line for each
// event, not one for each group.
func TestLogHasOneLineAPublisher(t *testing.T) {
	ctx := testContext(t)
	var log, pubLog logLines
	url := "mem://" + t.Name()
	subBus, pubBus := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, url), openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&pubLog, nil))}, url)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("t.%d", i))
	}
	sub := subscribe(t, subBus, names[0], Topics(names[1:]...), PublisherEvents())
	for _, name := range names {
		p := publisher(t, pubBus, name)
		wait(t, ctx, p, 1)
		publish(t, ctx, p, "x")
	}
	if groups := len(pubBus.Stats().Publications); groups < 2 {
		t.Fatalf("%d groups published to, want at least 2", groups)
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
	if log.count(`level=INFO msg="publisher up"`) != 1 || log.count(`level=INFO msg="publisher ended"`) != 1 || log.count("\n") != 2 {
		t.Errorf("the publisher's log, want 2 lines, publisher up and ended:\n%s", log.String())
	}
	if pubLog.count(`level=INFO msg="subscriber up"`) != 1 || pubLog.count("\n") > 2 { // the other line reports that the subscriber left
		t.Errorf("the subscriber's log, want subscriber up and at most 1 other line:\n%s", pubLog.String())
	}
}
