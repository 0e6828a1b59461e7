//go:build unix

package pubsub

import (
	"errors"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Without a free descriptor the boot id of this host cannot be read. Open fails then, rather than use another clock.
func TestClockUnknown(t *testing.T) {
	restore := testenv.FewFiles(t, 0)
	b, err := Config{Logger: quiet}.Open(t.Context(), memURL(t))
	restore()
	if b != nil {
		b.Close()
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("opening without a named clock: error %v, want %v", err, syscall.EMFILE)
	}
}
