//go:build unix

package pubsub

import (
	"errors"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Without a free descriptor the name of this host's clock cannot be read. It is not another clock's for that.
func TestClockUnknown(t *testing.T) {
	restore := testenv.FewFiles(t, 0)
	b, err := Config{Logger: quiet}.Open(t.Context(), memURL(t))
	restore()
	if b != nil {
		b.Close()
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("opened without a name of the clock: %v", err)
	}
}
