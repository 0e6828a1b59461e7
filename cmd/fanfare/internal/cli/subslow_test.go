package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// stuckWriter blocks until it is released.
type stuckWriter struct {
	release chan struct{}
	buf     bytes.Buffer
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.release
	return w.buf.Write(p)
}

// With -slow latest, gap, evict and conflate a sub whose output is not read never blocks pub, and
// reports what it dropped, or why it has ended.
func TestSubSlow(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()     // the test mostly waits
	const n = 15_000 // more than the receive window holds
	lines := strings.Repeat(strings.Repeat("x", 999)+"\n", n)
	for _, word := range []string{"gap", "latest", "evict", "conflate"} {
		t.Run(word, func(t *testing.T) {
			url := memURL(t)
			out := &stuckWriter{release: make(chan struct{})}
			args := []string{"sub", "-until", "end", "-t", url, "-json", "-q", "-slow", word}
			if word == "latest" || word == "evict" {
				args = append(args, "-behind", "50")
			}
			code, text := make(chan int, 1), new(syncBuffer)
			go func() { code <- Run(testContext(t), append(args, "x"), nil, out, text) }()
			start(t, strings.NewReader(lines), "pub", "-t", url, "-name", "feed", "-wait", "1", "-q", "x").end(t, exitOK)
			close(out.release)
			got := <-code
			list := objects(t, out.buf.String())
			replaced := 0.0
			if word == "conflate" {
				replaced = list[len(list)-1]["replaced"].(float64)
			}
			messages, lost := 0.0, 0.0
			for _, o := range list {
				switch o["type"] {
				case "message":
					messages++
				case "gap":
					if o["cause"] != events.CauseSlowConsumer.String() {
						t.Errorf("gap %v, want cause %v", o, events.CauseSlowConsumer)
					}
					lost += o["count"].(float64)
				}
			}
			sum := list[len(list)-1]
			if sum["messages"] != messages || sum["lost"] != lost || sum["complete"] != (got == exitOK) || (got == exitOK) != (lost == 0 && word == "conflate") {
				t.Errorf("%v messages, %v lost, exit code %d, want the same in the summary %v: %s", messages, lost, got, sum, text.String())
			}
			e, evicted := sum["evicted"].(map[string]any)
			if evicted != (word == "evict") {
				t.Fatalf("summary %v has evicted: %v, want %v", sum, evicted, word == "evict")
			}
			if evicted {
				if sum["end"] != "evicted" || e["behind_packets"].(float64) <= 50 || e["allowed_packets"] != 50.0 || e["name"] != "feed" || !strings.Contains(sum["error"].(string), "behind publisher feed (limit 50)") {
					t.Errorf("summary %v, want end evicted, more than 50 packets behind, 50 allowed, behind publisher feed", sum)
				}
			} else if messages == 0 || lost+replaced == 0 || messages+lost+replaced != n || sum["end"] != "publisher" {
				t.Errorf("%v messages, %v lost and %v replaced, want %d in all and an end by the publisher: %v", messages, lost, replaced, n, sum)
			}
		})
	}
}
