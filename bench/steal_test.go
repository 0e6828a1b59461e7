package bench

import (
	"runtime"
	"strings"
	"testing"
)

func TestSteal(t *testing.T) {
	before := steal{stolen: 10, all: 1000}
	for _, c := range []struct {
		now  steal
		want float64
	}{
		{steal{60, 1500}, 0.1},
		{steal{10, 1500}, 0},
		{before, 0},
		{steal{}, 0}, // unknown, or a clock that was set back
	} {
		if got := c.now.share(before); got != c.want {
			t.Errorf("%+v since %+v: %v, want %v", c.now, before, got, c.want)
		}
	}
	if runtime.GOOS == "linux" && readSteal().all == 0 {
		t.Error("/proc/stat was not read")
	}
}

func TestHostWarnings(t *testing.T) {
	for _, c := range []struct {
		host Host
		want []string
	}{
		{Host{}, nil},
		{Host{Steal: 0.01}, nil},
		{Host{Handover: Spread{80, 90, 150}}, nil},
		{Host{Handover: Spread{80, 90, 420}}, []string{"80 to 420 ns from one processor to another and back, median 90"}},
		{Host{Handover: Spread{80, 90, 420}, Steal: 0.12}, []string{"80 to 420 ns", "took 12 %"}},
	} {
		got := c.host.warnings()
		if len(got) != len(c.want) {
			t.Fatalf("%+v: warnings %q, want %d", c.host, got, len(c.want))
		}
		for i, text := range got {
			if !strings.Contains(text, c.want[i]) {
				t.Errorf("warning %q lacks %q", text, c.want[i])
			}
		}
	}
}
