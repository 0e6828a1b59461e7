package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// A publication that cannot send reports that after 1 s, 2 s, 4 s, … with the best known reason. It reports the end once,
// if it reported the failure.
func TestStuckIsEmitted(t *testing.T) {
	begin := reliable.Instant(time.Hour)
	at := func(ms int) reliable.Instant { return begin.Add(time.Duration(ms) * time.Millisecond) }
	gone := errors.New("interface hv0 is down")
	for _, c := range []struct {
		name string
		lost error // why the membership was lost
		err  error
		text string
	}{
		{"an error of the system", nil, syscall.ENETUNREACH, "network is unreachable"},
		{"no known reason", nil, nil, "takes no packets"},
		{"the group is lost", gone, fmt.Errorf("udp: %w", transport.ErrNotReady), "interface hv0 is down"},
		{"the group is not joined yet", nil, transport.ErrNotReady, "not joined yet"},
		{"the group is lost, and another error", gone, syscall.EPERM, "not permitted"},
	} {
		x := stuck{lost: c.lost}
		var reported []string
		for ms := 0; ms <= 9000; ms += 100 {
			x.refused(at(ms), c.err, 100)
			if why := x.why(at(ms)); (why != nil) != (ms >= 1000) || why != nil && !strings.Contains(why.Error(), c.text) {
				t.Errorf("%s: after %d ms: why returned %v, want %q from 1000 ms on", c.name, ms, why, c.text)
			}
			if e, ok := x.note(at(ms), 7); ok {
				reported = append(reported, fmt.Sprint(e.For))
				if e.Kind != events.CannotSend || e.Behind != 7 || !strings.Contains(e.Err.Error(), c.text) {
					t.Errorf("%s: event %+v, want CannotSend with 7 packets behind and %q", c.name, e, c.text)
				}
			}
		}
		if got := strings.Join(reported, " "); got != "1s 2s 4s 8s" {
			t.Errorf("%s: reported after %s, want 1s 2s 4s 8s", c.name, got)
		}
		x.took(at(9100))
		if e, ok := x.note(at(9200), 0); !ok || e.Kind != events.SendsAgain || e.For != 9100*time.Millisecond {
			t.Errorf("%s: at the end: event %+v, %v, want SendsAgain after 9.1s", c.name, e, ok)
		}
		if e, ok := x.note(at(20000), 0); ok || x.why(at(20000)) != nil {
			t.Errorf("%s: after the end: event %+v, want none", c.name, e)
		}
	}
	// Short failures are not reported.
	var x stuck
	x.refused(at(0), syscall.ENOBUFS, 100)
	x.took(at(900))
	x.refused(at(1000), syscall.ENOBUFS, 100)
	if e, ok := x.note(at(1900), 0); ok {
		t.Errorf("two short failures: event %+v, want none", e)
	}
}

// Time in which the process is stopped does not count as time in which nothing can be sent.
func TestStuckAcrossAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reported []events.Event
		_, l := newLoopOver(t, Config{Wait: WaitPark, Events: func(e events.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == events.CannotSend {
				reported = append(reported, e)
			}
		}}, func(tr transport.Transport) transport.Transport {
			return &refusing{Transport: tr, err: syscall.ENOBUFS}
		})
		publication(t, l, "x")
		time.Sleep(firstReport / 4)
		l.freeze(t, time.Minute)
		time.Sleep(firstReport / 4)
		mu.Lock()
		if len(reported) > 0 {
			t.Errorf("events %v after the stop, want none yet", reported)
		}
		mu.Unlock()
		time.Sleep(firstReport)
		mu.Lock()
		defer mu.Unlock()
		if len(reported) != 1 || reported[0].For > 2*firstReport {
			t.Errorf("events %v, want one with For of at most %v", reported, 2*firstReport)
		}
	})
}

// If data is too long for the path, sending shorter packets does not end the failure.
func TestStuckByLength(t *testing.T) {
	begin := reliable.Instant(time.Hour)
	for _, c := range []struct {
		err     error
		took    []uint16
		waiting uint64
		over    bool
	}{
		{fmt.Errorf("%w: %w", transport.ErrNotReady, syscall.EMSGSIZE), []uint16{60}, 7, false},
		{fmt.Errorf("%w: %w", transport.ErrNotReady, syscall.EMSGSIZE), []uint16{60, 1400}, 7, true},
		{fmt.Errorf("%w: %w", transport.ErrNotReady, syscall.EMSGSIZE), []uint16{60}, 0, true},
		{transport.ErrNotReady, []uint16{60}, 7, true},
	} {
		var x stuck
		x.refused(begin, c.err, 1400)
		if x.shows(c.took) {
			x.took(begin.Add(time.Millisecond))
		}
		_, reported := x.note(begin.Add(2*time.Second), c.waiting)
		if reported == c.over {
			t.Errorf("%v, then packets of %d bytes sent: reported %v, want %v", c.err, c.took, reported, !c.over)
		}
	}
}
