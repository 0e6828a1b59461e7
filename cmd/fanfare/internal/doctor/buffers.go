package doctor

import "fmt"

// capNetAdmin lets a process exceed the limits on buffers (socket(7),
// SO_RCVBUFFORCE).
const capNetAdmin = 12

// buffers holds the limits on socket buffers against what transport/udp asks
// for.
func (c *check) buffers() {
	for _, b := range []struct {
		name, what string
		asked      int
	}{
		{"rmem_max", "receive", c.ReceiveBytes},
		{"wmem_max", "send", c.SendBytes},
	} {
		limit, ok := c.number("proc/sys/net/core/" + b.name)
		switch {
		case !ok || b.asked == 0:
		case limit >= int64(b.asked):
			c.add("buffers", OK, "", "net.core.%s of %d bytes is enough for the %s buffers of %d", b.name, limit, b.what, b.asked)
		case c.capable(capNetAdmin):
			c.add("buffers", OK, "", "net.core.%s of %d bytes is less than the %s buffers of %d, but does not bind this process (CAP_NET_ADMIN)", b.name, limit, b.what, b.asked)
		default:
			c.add("buffers", Warn, fmt.Sprintf("sysctl -w net.core.%s=%d", b.name, b.asked),
				"net.core.%s allows %d bytes, and %s buffers ask for %d: bursts that the network carries may be lost on this host, and be repaired", b.name, limit, b.what, b.asked)
		}
	}
}
