package pubsub

import (
	"log/slog"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// warnLimits logs that the system's limit on socket buffers is smaller than the window: larger bursts are dropped on
// this host and must be repaired, and publishers that wait for subscribers run slower.
func warnLimits(log *slog.Logger, l udp.SocketLimits) {
	if l.ReceiveGranted < l.ReceiveAsked {
		report.ReceiveBufferCapped.Log(log, "asked_bytes", l.ReceiveAsked, "granted_bytes", l.ReceiveGranted)
	}
}
