package rocenet_test

import (
	"errors"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport/rocenet"
)

// With too few free file descriptors, Open reports those and not a missing interface or capability. If Open succeeds,
// the endpoint is complete and observes its interface.
func TestFewDescriptors(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	for _, cfg := range []rocenet.Config{
		{Interface: "lo"}, {Interface: "127.0.0.1"}, {}, {Interface: "lo", Check: roce.CheckFull}, {Interface: "::1"},
	} {
		before := openFiles(t)
		tr := open(t, cfg)
		perEndpoint := openFiles(t) - before
		end(tr)
		for free := range perEndpoint + 2 {
			restore := testenv.FewFiles(t, free)
			tr, err := rocenet.Open(cfg)
			restore()
			if err != nil {
				if !errors.Is(err, syscall.EMFILE) {
					t.Errorf("%+v with %d descriptors: %v, want %v", cfg, free, err, syscall.EMFILE)
				}
				continue
			}
			if got := openFiles(t) - before; got != perEndpoint {
				t.Errorf("%+v with %d descriptors has %d open files, want %d", cfg, free, got, perEndpoint)
			}
			end(tr)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%+v: %d open files before, %d after, want equal numbers", cfg, before, after)
		}
	}
}

// openFiles counts the files that stay open: checks of links open one briefly.
func openFiles(t *testing.T) int {
	t.Helper()
	minimum := math.MaxInt
	for range 10 {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		minimum = min(minimum, len(list))
		time.Sleep(time.Millisecond)
	}
	return minimum
}
