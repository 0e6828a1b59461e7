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

// That nothing can be sent is reported after a second, and again at doubling intervals, with the best known reason; and
// once that it is over, if it was reported.
func TestStuckIsEmitted(t *testing.T) {
	begin := reliable.Instant(time.Hour)
	at := func(ms int) reliable.Instant { return begin.Add(time.Duration(ms) * time.Millisecond) }
	gone := errors.New("interface hv0 is down")
	for _, c := range []struct {
		name string
		lost error // the membership
		err  error
		says string
	}{
		{"the system says why", nil, syscall.ENETUNREACH, "network is unreachable"},
		{"no reason is known", nil, nil, "takes no packets"},
		{"the group is lost", gone, fmt.Errorf("udp: %w", transport.ErrNotReady), "interface hv0 is down"},
		{"it is not joined yet", nil, transport.ErrNotReady, "not joined yet"},
		{"the group is lost, and something else is wrong", gone, syscall.EPERM, "not permitted"},
	} {
		x := stuck{lost: c.lost}
		var reported []string
		for ms := 0; ms <= 9000; ms += 100 {
			x.refused(at(ms), c.err, 100)
			if why := x.why(at(ms)); (why != nil) != (ms >= 1000) || why != nil && !strings.Contains(why.Error(), c.says) {
				t.Errorf("%s: after %d ms: %v", c.name, ms, why)
			}
			if e, ok := x.note(at(ms), 7); ok {
				reported = append(reported, fmt.Sprint(e.For))
				if e.Kind != events.CannotSend || e.Behind != 7 || !strings.Contains(e.Err.Error(), c.says) {
					t.Errorf("%s: %+v", c.name, e)
				}
			}
		}
		if got := strings.Join(reported, " "); got != "1s 2s 4s 8s" {
			t.Errorf("%s: reported after %s", c.name, got)
		}
		x.took(at(9100))
		if e, ok := x.note(at(9200), 0); !ok || e.Kind != events.SendsAgain || e.For != 9100*time.Millisecond {
			t.Errorf("%s: over: %+v, %v", c.name, e, ok)
		}
		if e, ok := x.note(at(20000), 0); ok || x.why(at(20000)) != nil {
			t.Errorf("%s: behind it: %+v", c.name, e)
		}
	}
	// Short ones are not reported.
	var x stuck
	x.refused(at(0), syscall.ENOBUFS, 100)
	x.took(at(900))
	x.refused(at(1000), syscall.ENOBUFS, 100)
	if e, ok := x.note(at(1900), 0); ok {
		t.Errorf("of two short ones: %+v", e)
	}
}

// That nothing could be sent before the process was stopped, and cannot when it goes on, has not lasted for all that time.
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
			t.Errorf("reported %v", reported)
		}
		mu.Unlock()
		time.Sleep(firstReport)
		mu.Lock()
		defer mu.Unlock()
		if len(reported) != 1 || reported[0].For > 2*firstReport {
			t.Errorf("after a second reported %v", reported)
		}
	})
}

// Where data is too long for the path, that shorter packets are sent does not show that data can be.
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
			t.Errorf("%v, then %d are taken: reported %v", c.err, c.took, reported)
		}
	}
}
