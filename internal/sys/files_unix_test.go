//go:build unix

package sys

import (
	"errors"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Without a free descriptor no lookup reports that there is no loopback interface.
func TestNoDescriptor(t *testing.T) {
	lo, err := InterfaceByName(LoopbackName())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		restore := testenv.FewFiles(t, 0)
		for name, err := range map[string]error{
			"ByName":       second(InterfaceByName(lo.Name)),
			"ByIndex":      second(InterfaceByIndex(lo.Index)),
			"All":          second(Interfaces()),
			"Find":         second(FindInterface(lo.Name)),
			"Find address": second(FindInterface("127.0.0.1")),
		} {
			if !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrNoInterface) {
				t.Errorf("round %d: %s: error %v, want %v, not %v", round, name, err, syscall.EMFILE, ErrNoInterface)
			}
		}
		restore()
		if found, err := InterfaceByIndex(lo.Index); err != nil || found.Name != lo.Name {
			t.Errorf("afterwards: interface %v, error %v, want %s", found, err, lo.Name)
		}
	}
}
