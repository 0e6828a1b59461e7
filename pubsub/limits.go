package pubsub

import (
	"log/slog"

	"github.com/fanfaremq/fanfare/transport/udp"
)

// warnLimits tells an operator when the system's socket limits cap the window:
// bursts that do not fit are lost on this host and must be repaired, and
// publishers that wait for subscribers run slower.
func warnLimits(log *slog.Logger, l udp.SocketLimits) {
	if l.ReceiveGranted < l.ReceiveAsked {
		log.Warn("the system caps the receive buffer, and with it the window that publishers may fill: raise it with sysctl -w net.core.rmem_max=BYTES",
			"asked_bytes", l.ReceiveAsked, "granted_bytes", l.ReceiveGranted)
	}
}
