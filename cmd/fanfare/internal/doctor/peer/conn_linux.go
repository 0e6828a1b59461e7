package peer

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// conn holds the sockets of one side: uni, which sends most packets; multi, bound to the group; and publishes
// and subscribes, which are used like the sockets of a publisher and a subscriber. publishes sends only to
// the group, and receives statuses and NAKs at a port that has sent nothing to their sender.
type conn struct {
	uni, multi            *net.UDPConn
	publishes, subscribes *net.UDPConn
	group                 netip.AddrPort
	gso, gro              bool
	train                 sys.SendBatch
}

const receiveBytes = 4 << 20 // requested receive buffer, enough for rows of probes

// openConn opens the sockets; port is the port of uni, 0: any.
func openConn(cfg Config, port uint16) (*conn, error) {
	c := &conn{group: cfg.Group}
	var err error
	if c.uni, err = listen(netip.AddrPortFrom(cfg.Addr, port),
		func(fd int) error { return c.setUnicast(fd, cfg) }); err != nil {
		return nil, fmt.Errorf("UDP port %d of %v: %w", port, cfg.Addr, err)
	}
	if c.multi, err = listen(cfg.Group, func(fd int) error { return c.setMulticast(fd, cfg) }); err != nil {
		c.close()
		return nil, fmt.Errorf("group %v on %s: %w", cfg.Group, cfg.Interface.Name, err)
	}
	for _, s := range []**net.UDPConn{&c.publishes, &c.subscribes} {
		if *s, err = listen(netip.AddrPortFrom(cfg.Addr, 0),
			func(fd int) error { return c.setUnicast(fd, cfg) }); err != nil {
			c.close()
			return nil, fmt.Errorf("a UDP port of %v: %w", cfg.Addr, err)
		}
	}
	return c, nil
}

// listen binds a socket to one address, also of a group; package net would bind to all addresses.
func listen(at netip.AddrPort, set func(fd int) error) (*net.UDPConn, error) {
	fd, err := sys.OpenUDP(false)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "udp")
	defer file.Close() // FilePacketConn duplicates the descriptor
	sys.SetReceiveBuffer(fd, receiveBytes)
	if err := sys.Set(fd, "IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1); err != nil {
		return nil, err
	}
	if err := set(fd); err != nil {
		return nil, err
	}
	if err := sys.Bind(fd, at, 0); err != nil {
		return nil, err
	}
	pc, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

func (c *conn) setUnicast(fd int, cfg Config) error {
	c.gso = sys.SupportsGSO(fd)
	if err := sys.SetMulticast(fd, cfg.Addr, cfg.Interface.Index, cfg.TTL, true); err != nil { // two sides on one host
		return err
	}
	if err := sys.Set(fd, "IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, unicastTTL); err != nil {
		return err
	}
	// set Don't Fragment regardless of the path MTU known to the kernel
	return sys.Set(fd, "IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
}

func (c *conn) setMulticast(fd int, cfg Config) error {
	c.gro = sys.EnableGRO(fd)
	if err := sys.Share(fd); err != nil {
		return err
	}
	if err := sys.OnlyOwnGroups(fd, false, cfg.Interface.Index); err != nil {
		return err
	}
	return sys.Join(fd, cfg.Group.Addr(), cfg.Interface.Index)
}

func (c *conn) send(b []byte, to netip.AddrPort) error {
	_, err := c.uni.WriteToUDPAddrPort(b, to)
	return err
}

// sendTrain sends datagrams of size bytes each in one call, split by the kernel (udp(7),
// UDP_SEGMENT), or one by one if it cannot split.
func (c *conn) sendTrain(b []byte, size int, to netip.AddrPort) error {
	if c.gso {
		if c.gso = c.sendCut(b, size, to); c.gso {
			return nil
		}
	}
	for len(b) > 0 {
		if err := c.send(b[:min(size, len(b))], to); err != nil {
			return err
		}
		b = b[min(size, len(b)):]
	}
	return nil
}

// sendCut makes the kernel split b; false if the interface does not support it.
func (c *conn) sendCut(b []byte, size int, to netip.AddrPort) bool {
	raw, err := c.uni.SyscallConn()
	if err != nil {
		return false
	}
	c.train.SetAddress(sys.NewSockaddr(to, 0))
	c.train.Put(0, b)
	var errno syscall.Errno
	err = raw.Write(func(fd uintptr) bool {
		errno = c.train.SendTrain(int(fd), 1, size)
		return errno != unix.EAGAIN
	})
	return err == nil && errno == 0
}

// receive reads from a socket until it is closed, and calls f with each datagram; merged datagrams are split.
func receive(from *net.UDPConn, f func(b []byte, a arrival, from netip.AddrPort)) {
	buf, oob := make([]byte, 1<<16), sys.ControlBuffer(sys.RoomForHeaders)
	for {
		n, on, _, addr, err := from.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue // such as ECONNREFUSED for an earlier packet
		}
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		control := sys.ParseControl(oob[:on])
		a, segment := arrival{TTL: int(control.HopLimit)}, control.Segment
		if segment <= 0 || segment >= n {
			a.Size = n
			f(buf[:n], a, addr)
			continue
		}
		a.Merged = true
		for b := buf[:n]; len(b) > 0; b = b[min(segment, len(b)):] {
			one := b[:min(segment, len(b))]
			a.Size = len(one)
			f(one, a, addr)
		}
	}
}

// openIGMP receives the IGMP packets of an interface without their IP headers. It requires CAP_NET_RAW (raw(7)).
func openIGMP(cfg Config) (net.PacketConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), cfg.Interface.Name) }); e != nil {
			return e
		}
		return err
	}}
	return lc.ListenPacket(context.Background(), "ip4:"+strconv.Itoa(unix.IPPROTO_IGMP), "0.0.0.0")
}
