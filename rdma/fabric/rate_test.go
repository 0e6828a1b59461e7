package fabric

import (
	"math"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// A group has the rate of the port that made it, unless the administrator overrides it. Slower ports are refused, even
// if they make the group.
func TestRates(t *testing.T) {
	var override uint8
	f := New(Config{SM: SM{Override: func(g *Group) {
		if override != 0 {
			g.Rate = override
		}
	}}})
	defer f.Close()
	fast, slow := newPeer(t, f.AddHost(HostConfig{RateGbps: 56})), newPeer(t, f.AddHost(HostConfig{RateGbps: 40}))
	odd := newPeer(t, f.AddHost(HostConfig{RateGbps: 45})) // not a rate of InfiniBand
	want := func(at *peer, group int, status int, rate uint8) {
		t.Helper()
		if got := at.status(testGroup(group), rdma.JoinFullMember); got != status {
			t.Errorf("group %d: status %d, want %d", group, got, status)
		}
		if g, _, _ := f.Record(at.mgid(testGroup(group))); g.Rate != rate {
			t.Errorf("group %d has rate %d, want %d", group, g.Rate, rate)
		}
	}
	const r40, r56, r100 = 7, 12, 16
	want(fast, 1, 0, r56)
	want(slow, 1, -22, r56)
	want(slow, 2, 0, r40)
	want(fast, 2, 0, r40)
	want(odd, 3, 0, r40)
	override = r100
	want(fast, 4, -22, 0)
	override = 30 // an invalid rate code
	want(fast, 5, -22, 0)
	override = 3
	want(fast, 6, 0, 3)
	want(slow, 6, 0, 3)
	if attr, err := fast.dev.Port(1); err != nil || attr.RateGbps != 56 {
		t.Errorf("the port reports %v Gbit/s, error %v, want 56", attr.RateGbps, err)
	}
}

func TestRateCodes(t *testing.T) {
	for gbps, want := range map[float64]uint8{2: 0, 2.5: 2, 10: 3, 25: 15, 39: 4, 40: 7, 100: 16, 5000: 24} {
		if got, ok := largestRate(gbps, soft.SelectLargest, 0); got != want || ok != (want != 0) {
			t.Errorf("a port of %v Gbit/s has rate %d, want %d", gbps, got, want)
		}
	}
}

// A host with ports slower than all rates of InfiniBand cannot be used.
func TestImpossibleRates(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	for _, gbps := range []float64{1, 2.4, -10, math.NaN(), math.Inf(1), math.Inf(-1)} {
		h := f.AddHost(HostConfig{RateGbps: gbps})
		_, err := h.OpenDevice("sim0")
		wantErrno(t, "OpenDevice", err, syscall.EINVAL)
		_, err = h.NewEventChannel()
		wantErrno(t, "NewEventChannel", err, syscall.EINVAL)
		_, err = h.Devices()
		wantErrno(t, "Devices", err, syscall.EINVAL)
	}
	a, b := newPeer(t, f.AddHost(HostConfig{RateGbps: 2.5})), newPeer(t, f.AddHost(HostConfig{RateGbps: 2.5}))
	for _, p := range []*peer{a, b} {
		if got := p.status(testGroup(1), rdma.JoinFullMember); got != 0 {
			t.Errorf("a port of 2.5 Gbit/s: status %d, want 0", got)
		}
	}
}
