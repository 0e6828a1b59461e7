//go:build !fanfare_plainudp

package pubsub

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A subscriber without a route to the publisher reports in the log and by an event that its NAKs and statuses cannot
// be sent: the address, the reason and the remedy. It also reports when the route exists again.
func TestNoRouteToPublisher(t *testing.T) {
	testenv.Slow(t)
	noRouteToPublisher(t, "udp://239.20.0.0/24?port=7430&groups=1&iface=", "10.99.0.2:")
}

func TestNoRouteToPublisherRoCE(t *testing.T) {
	testenv.Slow(t)
	noRouteToPublisher(t, "roce://", "[::ffff:10.99.0.2]:")
}

func noRouteToPublisher(t *testing.T, url, address string) {
	t.Parallel() // the test mostly waits
	far := startFar(t, func(t *testing.T) { publishFromOtherNetwork(t, url+"far") })
	if far == nil {
		return
	}
	testenv.AddVeth(t, "near", "far", 0)
	testenv.Sysctl(t, "net/ipv4/conf/all/rp_filter", "0") // otherwise the kernel drops packets from there
	testenv.Sysctl(t, "net/ipv4/conf/near/rp_filter", "0")
	testenv.MoveLink(t, "far", far.pid)
	testenv.AddAddr(t, "near", "10.88.0.1/24")
	testenv.LinkUp(t, "near")
	far.ask(t, "start")
	reported, ctx := &eventLog{}, testContext(t)
	var log logLines
	b := openBus(t, Config{OnEvent: reported.event, Logger: slog.New(slog.NewTextHandler(&log, nil))}, url+"near")
	subscribe(t, b, "x")

	e := reported.await(t, ctx, events.CannotReply)
	if !errors.Is(e.Err, syscall.ENETUNREACH) || !strings.HasPrefix(e.Address, address) || e.For < time.Second || e.Behind == 0 {
		t.Errorf("event %+v, want %v at %s for at least 1 s", e, syscall.ENETUNREACH, address)
	}
	if !strings.Contains(e.String(), "network is unreachable: add a route to 10.99.0.2 on this host") {
		t.Errorf("event %v, want the advice to add a route to 10.99.0.2", e)
	}
	if n := log.count(`level=WARN msg="NAKs and statuses to a publisher cannot be sent`); n == 0 || n > 4 {
		t.Errorf("the log has %d lines on replies that cannot be sent, want 1 to 4:\n%s", n, log.String())
	}
	if st := b.Stats(); st.RepliesFailed == 0 || st.Transport.SendErrors != 0 {
		t.Errorf("%d replies failed, %d packets are counted as lost by their publisher, want some and none", st.RepliesFailed, st.Transport.SendErrors)
	}
	var kept bool
	for _, l := range b.Losses().Losses {
		kept = kept || l.Cause == "cannot_reply" && strings.HasPrefix(l.Address, address)
	}
	if !kept {
		t.Errorf("the event is missing in the loss record: %+v", b.Losses())
	}

	testenv.AddAddr(t, "near", "10.99.0.1/24")
	if e := reported.await(t, ctx, events.RepliesAgain); !strings.HasPrefix(e.Address, address) || e.For < time.Second {
		t.Errorf("event %+v, want one of %s after at least 1 s", e, address)
	}
	far.ask(t, "met")
}

// publishFromOtherNetwork runs the process at the far end, on another network.
func publishFromOtherNetwork(t *testing.T, url string) {
	var b *Bus
	var p *Publisher
	obey(func(order string) string {
		switch order {
		case "start":
			testenv.AddAddr(t, "far", "10.99.0.2/24")
			testenv.LinkUp(t, "far")
			b = openBus(t, Config{}, url)
			p = publisher(t, b, "x")
			publish(t, testContext(t), p, "hello")
		case "met":
			wait(t, testContext(t), p, 1)
			b.Close()
		}
		return ""
	})
}
