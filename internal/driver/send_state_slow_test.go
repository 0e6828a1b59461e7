package driver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A function that makes a topic's state is told of while it takes seconds, at twice as long each time, and when it has returned; one
// that takes less is not.
func TestSlowState(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  []string
	}{
		{firstTold - time.Millisecond, nil},
		{firstTold + time.Millisecond, []string{"topic=x so_far=1s", "topic=x after=1.001s"}},
		{5 * time.Second, []string{"topic=x so_far=1s", "topic=x so_far=2s", "topic=x so_far=4s", "topic=x after=5s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			l := &Loop{clock: newClock()}
			l.log = slog.New(slog.NewTextHandler(&out, nil))
			over := l.watchState("x")
			time.Sleep(c.takes)
			synctest.Wait()
			over()
			time.Sleep(time.Minute)
			synctest.Wait()
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.want) {
				t.Fatalf("%v: %q", c.takes, lines)
			}
			for i, want := range c.want {
				if !strings.HasSuffix(lines[i], want) {
					t.Errorf("%v: %q, want %q", c.takes, lines[i], want)
				}
			}
		})
	}
}
