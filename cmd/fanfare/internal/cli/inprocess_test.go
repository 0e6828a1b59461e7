package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// A publisher on a fabric within its own process is warned that no other process can receive it,
// unless another bus is on the fabric, and not with -q.
func TestAloneInProcess(t *testing.T) {
	for _, scheme := range []string{"sim", "mem"} {
		wantText, url := scheme+":// exists within this process only", scheme+"://alone"
		args := []string{"pub", "-t", url, "-wait", "0", "-linger", "1m", "x"}
		if r := runWith(t.Context(), "a line\n", args...); r.code != 0 || !strings.Contains(r.stderr, wantText) {
			t.Errorf("exit code %d, standard error %q; want 0 and %q", r.code, r.stderr, wantText)
		}
		if r := runWith(t.Context(), "a line\n", append(args[:1:1], append([]string{"-q"}, args[1:]...)...)...); strings.Contains(r.stderr, wantText) {
			t.Errorf("standard error with -q is %q, want it without %q", r.stderr, wantText)
		}
		if r := runWith(t.Context(), "", "tap", "-t", url, "-until", "10ms"); r.code != 0 || strings.Count(r.stderr, wantText) != 1 {
			t.Errorf("tap: exit code %d, standard error %q; want 0 and %q once", r.code, r.stderr, wantText)
		}
		other, err := pubsub.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if r := runWith(t.Context(), "a line\n", args...); strings.Contains(r.stderr, wantText) {
			t.Errorf("beside another bus, standard error is %q, want it without %q", r.stderr, wantText)
		}
	}
}

// The warning appears once, after waitNotice or at the end, if no other bus has joined; not if one
// joined in time, even if it has left again.
func TestWatchAlone(t *testing.T) {
	const network, never = "watched", time.Hour
	visit := func(t *testing.T) (leave func()) {
		tr, err := mem.Open(mem.Config{Name: network})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			tr.Close()
			for b := transport.NewBatch(1); tr.Poll(b) == nil; {
			}
		}
	}
	for name, c := range map[string]struct {
		joins, ends time.Duration // another bus joins, and leaves immediately; the watch ends
		want        []int         // warnings just before waitNotice, just after it, and at the end
	}{
		"no other bus":        {never, 2 * waitNotice, []int{0, 1, 1}},
		"no other bus, short": {never, waitNotice / 2, []int{1, 1, 1}},
		"from the start":      {0, 2 * waitNotice, []int{0, 0, 0}},
		"in time":             {waitNotice / 2, 2 * waitNotice, []int{0, 0, 0}},
		"late":                {waitNotice * 3 / 2, 2 * waitNotice, []int{0, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer visit(t)()
				leave := func() {}
				if c.joins == 0 {
					leave = visit(t)
				}
				var stderr syncBuffer
				end := (&common{urls: []string{"mem://" + network}}).watchInProcess(&env{console: newConsole(&stderr, "fanfare sub")})
				leave()
				if c.joins > 0 && c.joins < never {
					time.AfterFunc(c.joins, func() { visit(t)() })
				}
				time.AfterFunc(c.ends, end)
				for i, wait := range []time.Duration{waitNotice - 1, 2, waitNotice} {
					time.Sleep(wait)
					synctest.Wait()
					if n := strings.Count(stderr.String(), "mem:// exists within this process only"); n != c.want[i] {
						t.Errorf("%d warnings after %v, want %d", n, wait, c.want[i])
					}
				}
			})
		})
	}
}
