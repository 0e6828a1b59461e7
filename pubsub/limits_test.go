package pubsub

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/transport/udp"
)

// If the system caps the socket's buffer, the log warns with the remedy; otherwise it does not.
func TestWarningAboutSocketLimits(t *testing.T) {
	for granted, warn := range map[int]bool{212992: true, 8 << 20: false, 16 << 20: false} {
		var out bytes.Buffer
		warnLimits(slog.New(slog.NewTextHandler(&out, nil)), udp.SocketLimits{ReceiveAsked: 8 << 20, ReceiveGranted: granted})
		if got := strings.Contains(out.String(), "net.core.rmem_max"); got != warn {
			t.Errorf("granted %d of %d bytes: warned %v, want %v: %s", granted, 8<<20, got, warn, out.String())
		}
	}
}
