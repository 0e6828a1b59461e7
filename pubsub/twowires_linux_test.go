//go:build !fanfare_plainudp

package pubsub

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestOneOfTwoWiresIsCut has a publisher and a subscriber in namespaces of their own, with two wires between
// them, a leg over each. Each end of each wire goes down and comes back under load: a leg that is down and up again is told
// of, and each message comes once and in order, with no gap.
func TestOneOfTwoWiresIsCut(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	far := startFar(t, publishOverTwoWires)
	if far == nil {
		return
	}
	for n := range 2 {
		near := fmt.Sprint("near", n)
		testenv.AddVeth(t, near, fmt.Sprint("far", n), 0)
		testenv.MoveLink(t, fmt.Sprint("far", n), far.pid)
		testenv.AddAddr(t, near, fmt.Sprintf("10.88.%d.1/24", n))
		testenv.LinkUp(t, near)
		far.ask(t, fmt.Sprint("up ", n))
	}
	var log logLines
	c := Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	b, err := c.Open(t.Context(), overWires("near", 0), overWires("near", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var in ledger
	in.start(t, subscribe(t, b, "x"))
	far.ask(t, "start")
	in.grows(t, "over both")
	is := func(n int, up bool) {
		t.Helper()
		until(t, fmt.Sprintf("leg %d is up: %v", n, up), func() bool { return b.Stats().Legs[n].Up == up })
	}
	for n := range 2 {
		near := fmt.Sprint("near", n)
		is(n, true)
		testenv.LinkDown(t, near)
		is(n, false)
		in.grows(t, "without "+near)
		testenv.LinkUp(t, near)
		is(n, true)
		in.grows(t, "with "+near)

		far.ask(t, fmt.Sprint("down ", n))
		is(n, false) // for want of a carrier
		in.grows(t, "without the far end of "+near)
		far.ask(t, fmt.Sprint("up ", n))
		is(n, true)
		in.grows(t, "with the far end of "+near)
	}
	in.ends(t, far.ask(t, "stop"))
	if in.gaps() > 0 {
		t.Errorf("%d messages are lost, though one of two wires was there at any time", in.gaps())
	}
	for n, l := range b.Stats().Legs {
		if l.Filled == 0 {
			t.Errorf("leg %d has filled nothing of what the other did not bring: %+v", n, l)
		}
		if url := strings.SplitN(overWires("near", n), "?", 2)[1]; log.count("a leg is lost") < 4 || !strings.Contains(log.String(), url) {
			t.Errorf("the log does not tell of leg %d:\n%s", n, log.String())
		}
	}
}

// overWires is the fabric over the nth wire, at the end that is near or far.
func overWires(end string, n int) string {
	return fmt.Sprintf("udp://239.20.%d.0/24?iface=%s%d&port=7430&groups=1", n, end, n)
}

// publishOverTwoWires is the process at the far end.
func publishOverTwoWires(t *testing.T) {
	var pub *streamOfNumbers
	var log logLines
	obey(func(text string) (answer string) {
		var order string
		var n int
		_, _ = fmt.Sscan(text, &order, &n) // some orders have no number
		far := fmt.Sprint("far", n)
		switch order {
		case "up":
			if pub == nil {
				testenv.AddAddr(t, far, fmt.Sprintf("10.88.%d.2/24", n))
			}
			testenv.LinkUp(t, far)
		case "down":
			testenv.LinkDown(t, far)
		case "start":
			pub = startNumbers(t, &log, func(c Config) (*Bus, error) { return c.Open(t.Context(), overWires("far", 0), overWires("far", 1)) })
		case "stop":
			answer = pub.stop(t)
		}
		return answer
	})
}
