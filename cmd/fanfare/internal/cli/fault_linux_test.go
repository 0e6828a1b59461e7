package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A publisher with wrong message numbers is reported, and the exit code is 1, although all received
// messages were written.
func TestSubReportsAPublisherThatNumbersWrongly(t *testing.T) {
	for _, c := range []struct {
		name     string
		send     func(from *forger)
		wantText string
		code     int
	}{
		{"correct numbers", func(from *forger) { from.data(1, "x", 1, "second") }, "", 0},
		{"backwards", func(from *forger) { from.data(1, "x", 0, "again") }, "are repeated", 1},
		{"a number left out", func(from *forger) { from.data(1, "x", 7, "second") }, "left out", 1},
		{"malformed", func(from *forger) {
			bad := make([]byte, wire.DataHeaderLen+4)
			wire.PutDataHeader(bad, from.header, 1472)
			bad[wire.DataHeaderLen] = 9 // an unknown kind of run
			wire.SetSeq(bad, 1)
			from.send(bad)
			from.data(1, "x", 1, "second")
		}, "malformed", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := loopbackURL(t)
			text := start(t, nil, "sub", "-t", url, "-n", "3", "x")
			lines := start(t, nil, "sub", "-t", url, "-n", "3", "-json", "x")
			both := []*running{text, lines}
			first := newForger(t, url, "x")
			first.header.Publisher = 1 // a correct publisher, which shows that both have subscribed
			await(t, "both subscriptions", func() bool {
				first.data(0, "x", 0, "hello")
				return strings.Contains(text.stdout.String(), "hello") && strings.Contains(lines.stdout.String(), "hello")
			})
			from := newForger(t, url, "x")
			from.data(0, "x", 0, "first")
			c.send(from)
			await(t, "the report", func() bool {
				return strings.Contains(text.stderr.String(), c.wantText) && (c.wantText == "" || strings.Contains(lines.stdout.String(), `"fault"`))
			})
			first.data(1, "x", 1, "one more, if needed")
			for _, r := range both {
				r.end(t, c.code)
			}
			if faults := fmt.Sprintf(`"publisher_faults":%d,`, c.code); !strings.Contains(lines.stdout.String(), faults) {
				t.Errorf("the summary lacks %s:\n%s", faults, lines.stdout.String())
			}
		})
	}
}
