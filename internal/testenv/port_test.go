package testenv

import (
	"fmt"
	"net"
	"testing"
)

// Ports differ while they are in use, and are free afterwards.
func TestPort(t *testing.T) {
	taken := make(map[int]bool)
	t.Run("in use", func(t *testing.T) {
		for range 100 {
			port := Port(t)
			if taken[port] {
				t.Errorf("port %d was returned twice", port)
			}
			taken[port] = true
		}
	})
	for port := range taken {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Errorf("port %d is still reserved: %v", port, err)
			continue
		}
		l.Close()
	}
}
