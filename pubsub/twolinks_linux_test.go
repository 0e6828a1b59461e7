//go:build !fanfare_plainudp

package pubsub

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestOneOfTwoLinksIsCut runs a publisher and a subscriber in two network namespaces, with two links between them and
// a leg over each. Each end of each link goes down and up under load: the events name the leg, and each message is
// delivered once and in order, without a gap.
func TestOneOfTwoLinksIsCut(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	far := startFar(t, publishOverTwoLinks)
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
	b, err := c.Open(t.Context(), linkURL("near", 0), linkURL("near", 1))
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
		is(n, false) // no carrier
		in.grows(t, "without the far end of "+near)
		far.ask(t, fmt.Sprint("up ", n))
		is(n, true)
		in.grows(t, "with the far end of "+near)
	}
	for n := range 2 {
		testenv.LinkDown(t, fmt.Sprint("near", n))
		is(n, false)
	}
	if log.count("the last leg is lost: nothing is sent or received") != 1 {
		t.Errorf("the log does not say that no leg is left:\n%s", log.String())
	}
	for n := range 2 {
		testenv.LinkUp(t, fmt.Sprint("near", n))
		is(n, true)
	}
	in.ends(t, far.ask(t, "stop"))
	if in.gaps() > 0 {
		t.Errorf("%d messages are lost, although one of two links was up at any time", in.gaps())
	}
	for n, l := range b.Stats().Legs {
		if l.Filled == 0 {
			t.Errorf("leg %d has filled no loss of the other: %+v", n, l)
		}
		if url := strings.SplitN(linkURL("near", n), "?", 2)[1]; log.count("a leg is lost") < 4 || !strings.Contains(log.String(), url) {
			t.Errorf("the log does not name leg %d:\n%s", n, log.String())
		}
	}
}

// linkURL is the URL of the fabric over link n, at its near or far end.
func linkURL(end string, n int) string {
	return fmt.Sprintf("udp://239.20.%d.0/24?iface=%s%d&port=7430&groups=1", n, end, n)
}

// publishOverTwoLinks runs the process at the far end.
func publishOverTwoLinks(t *testing.T) {
	var pub *streamOfNumbers
	var log logLines
	obey(func(text string) (answer string) {
		var order string
		var n int
		_, _ = fmt.Sscan(text, &order, &n) // some commands have no number
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
			pub = startNumbers(t, &log, func(c Config) (*Bus, error) { return c.Open(t.Context(), linkURL("far", 0), linkURL("far", 1)) })
		case "stop":
			answer = pub.stop(t)
		}
		return answer
	})
}
