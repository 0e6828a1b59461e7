package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The range of ports is below the ephemeral ranges (from 32768 on Linux, 49152 on other systems), so that no socket
// gets one by chance.
const firstPort, ports = 20000, 10000

// Port returns a loopback port that no other test uses until t ends, in this process or another: tests of several
// packages run at the same time, and those that share groups and port would receive each other's packets. A TCP socket
// reserves it; no UDP socket is bound to it.
func Port(t testing.TB) int {
	t.Helper()
	var err error
	for range ports {
		var reserved net.Listener
		port := firstPort + rand.IntN(ports)
		if reserved, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			t.Cleanup(func() { reserved.Close() })
			return port
		}
	}
	t.Fatalf("no port from %d to %d is free: %v", firstPort, firstPort+ports-1, err)
	return 0
}
