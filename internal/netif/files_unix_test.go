//go:build unix

package netif

import (
	"errors"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Without a free descriptor no look-up says that there is no loopback.
func TestNoDescriptor(t *testing.T) {
	lo, err := ByName(Loopback())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		restore := testenv.FewFiles(t, 0)
		for name, err := range map[string]error{
			"ByName":       second(ByName(lo.Name)),
			"ByIndex":      second(ByIndex(lo.Index)),
			"All":          second(All()),
			"Find":         second(Find(lo.Name)),
			"Find address": second(Find("127.0.0.1")),
		} {
			if !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrNone) {
				t.Errorf("%d: %s: %v", round, name, err)
			}
		}
		restore()
		if found, err := ByIndex(lo.Index); err != nil || found.Name != lo.Name {
			t.Errorf("afterwards: %v, %v", found, err)
		}
	}
}
