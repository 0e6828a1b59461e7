package pubsub

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// In a subnet with virtual time, the reported delivery latencies equal those of the messages.
func TestDeliveryLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := testContext(t)
		url := simURL(t) + "?latency=3ms"
		for _, c := range []struct {
			pub, sub string
			timed    bool
		}{
			{"", "", true}, {"ptp", "ptp", true}, {"ptp", "", false}, {"", "ptp", false}, {"ptp", "gps", false}, {"none", "none", false}, {"none", "", false},
		} {
			name := fmt.Sprintf("clocks %q and %q", c.pub, c.sub)
			a, b := openBus(t, Config{Clock: c.pub, Name: "feed"}, url), openBus(t, Config{Clock: c.sub}, url)
			sub, p := subscribe(t, b, "x"), publisher(t, a, "x")
			wait(t, ctx, p, 1)
			var most time.Duration
			for i := range 50 {
				publish(t, ctx, p, fmt.Sprint(i))
				began := time.Now()
				if err := p.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				want(t, ctx, sub, fmt.Sprint(i))
				most = max(most, time.Since(began))
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
			time.Sleep(time.Second)
			l := b.Stats().Delivery
			if (l.Count > 20) != c.timed {
				t.Errorf("%s: %d deliveries are timed, want more than 20: %v", name, l.Count, c.timed)
			}
			if c.timed && (l.Max < 3*time.Millisecond || l.Max > most || l.P50 < 3*time.Millisecond) {
				t.Errorf("%s: %+v; the delay is 3 ms, the longest was %v", name, l, most)
			}
			if n := b.Stats().Groups[0].ClocksApart; n > 0 {
				t.Errorf("%s: %d clocks do not agree, want none", name, n)
			}
			b.Close()
			a.Close()
		}
	})
}

// The option clock= of a URL sets Config.Clock.
func TestClockOfURL(t *testing.T) {
	for urls, why := range map[string]string{
		"mem://clock?clock=a%20b":                     "must be at most 64 bytes",
		"mem://clock?clock=":                          "omit it for this host's clock",
		"mem://clocka?clock=ptp mem://clockb?clock=x": "another leg",
	} {
		list := strings.Fields(urls)
		if b, err := (Config{Logger: quiet}).Open(testContext(t), list[0], list[1:]...); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("Open(%s): error %v, want one containing %q", urls, err, why)
			if err == nil {
				b.Close()
			}
		}
	}
	if _, err := (Config{Clock: "ptp", Logger: quiet}).Open(testContext(t), "mem://clock?clock=ptp"); err == nil || !strings.Contains(err.Error(), "leave one out") {
		t.Errorf("clock in Config and URL: error %v, want one containing \"leave one out\"", err)
	}
	b := openBus(t, Config{}, memURL(t)+"?clock=ptp")
	of := func(c *Config) uint64 {
		clock, err := c.clock()
		if err != nil {
			t.Fatal(err)
		}
		return clock.ID
	}
	if id := of(&b.cfg); id != of(&Config{Clock: "ptp"}) || id == of(&Config{}) {
		t.Error("clock=ptp in the URL does not set Config.Clock")
	}
}
