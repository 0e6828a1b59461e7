//go:build !linux

package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
)

type conn struct {
	uni, multi            *net.UDPConn
	publishes, subscribes *net.UDPConn
	group                 netip.AddrPort
	gso, gro              bool
}

func openConn(Config, uint16) (*conn, error) {
	return nil, fmt.Errorf("tests with a second host require Linux, and this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (c *conn) send([]byte, netip.AddrPort) error           { return errors.ErrUnsupported }
func (c *conn) sendTrain([]byte, int, netip.AddrPort) error { return errors.ErrUnsupported }

func receive(*net.UDPConn, func([]byte, arrival, netip.AddrPort)) {}

func openIGMP(Config) (net.PacketConn, error) { return nil, errors.ErrUnsupported }
