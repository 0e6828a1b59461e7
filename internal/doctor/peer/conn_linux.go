package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// conn is the sockets of one side: one for unicast, from which everything is sent, and one
// for the group.
type conn struct {
	uni, multi *net.UDPConn
	group      netip.AddrPort
	gso, gro   bool
}

// receiveBytes is what the sockets ask for, so that rows of probes have room.
const receiveBytes = 4 << 20

// openConn opens the sockets; port is that of the unicast one, 0: any.
func openConn(cfg Config, port uint16) (*conn, error) {
	c := &conn{group: cfg.Group, gso: true, gro: true}
	var err error
	if c.uni, err = listen(netip.AddrPortFrom(cfg.Addr, port), func(fd int) error { return c.setUnicast(fd, cfg) }); err != nil {
		return nil, fmt.Errorf("UDP port %d of %v: %w", port, cfg.Addr, err)
	}
	if c.multi, err = listen(cfg.Group, func(fd int) error { return c.setMulticast(fd, cfg) }); err != nil {
		c.uni.Close()
		return nil, fmt.Errorf("group %v on %s: %w", cfg.Group, cfg.Interface.Name, err)
	}
	return c, nil
}

// listen binds a socket to an address, which may be a group: package net would bind that
// to all addresses.
func listen(at netip.AddrPort, set func(fd int) error) (*net.UDPConn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "udp")
	defer file.Close() // FilePacketConn makes a copy
	if err := set(fd); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	pc, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// option is a socket option (ip(7), udp(7)).
type option struct {
	name               string
	level, opt, number int
}

func setAll(fd int, options ...option) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.number); err != nil {
			return fmt.Errorf("socket option %s: %w", o.name, err)
		}
	}
	return nil
}

func (c *conn) setUnicast(fd int, cfg Config) error {
	c.setBuffer(fd)
	if unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) != nil {
		c.gso = false
	}
	mreq := &unix.IPMreqn{Ifindex: int32(cfg.Interface.Index), Address: cfg.Addr.As4()}
	if err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, mreq); err != nil {
		return fmt.Errorf("socket option IP_MULTICAST_IF: %w", err)
	}
	return setAll(fd,
		option{"IP_MULTICAST_TTL", unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, cfg.TTL},
		option{"IP_MULTICAST_LOOP", unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1}, // for two sides on one host
		option{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, unicastTTL},
		option{"IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
		// Don't Fragment, whatever the kernel has learnt of the path.
		option{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE})
}

func (c *conn) setMulticast(fd int, cfg Config) error {
	c.setBuffer(fd)
	if unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) != nil {
		c.gro = false
	}
	if err := setAll(fd,
		option{"SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		option{"IP_MULTICAST_ALL", unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0},
		option{"IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1}); err != nil {
		return err
	}
	mreq := &unix.IPMreqn{Multiaddr: cfg.Group.Addr().As4(), Ifindex: int32(cfg.Interface.Index), Address: cfg.Addr.As4()}
	if err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, mreq); err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	return nil
}

// setBuffer asks for room; what is granted will do.
func (c *conn) setBuffer(fd int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBytes)
	}
}

func (c *conn) send(b []byte, to netip.AddrPort) error {
	_, err := c.uni.WriteToUDPAddrPort(b, to)
	return err
}

// sendTrain sends datagrams of size bytes each in one call, which the kernel cuts
// (udp(7), UDP_SEGMENT); one by one where it cannot.
func (c *conn) sendTrain(b []byte, size int, to netip.AddrPort) error {
	if c.gso {
		oob := make([]byte, unix.CmsgSpace(2))
		h := &unix.Cmsghdr{Level: unix.IPPROTO_UDP, Type: unix.UDP_SEGMENT}
		h.SetLen(unix.CmsgLen(2))
		if _, err := binary.Encode(oob, binary.NativeEndian, h); err != nil {
			return err
		}
		binary.NativeEndian.PutUint16(oob[unix.CmsgLen(0):], uint16(size))
		if _, _, err := c.uni.WriteMsgUDPAddrPort(b, oob, to); err == nil {
			return nil
		}
		c.gso = false // as by EIO: the interface has no checksum offload
	}
	for len(b) > 0 {
		if err := c.send(b[:min(size, len(b))], to); err != nil {
			return err
		}
		b = b[min(size, len(b)):]
	}
	return nil
}

// receive reads from one of the sockets until it is closed, and calls f with each
// datagram, also those that the kernel had merged.
func receive(from *net.UDPConn, f func(b []byte, a arrival, from netip.AddrPort)) {
	buf, oob := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, on, _, addr, err := from.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue // such as ECONNREFUSED of something sent before
		}
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		a, segment := readControl(oob[:on])
		if segment == 0 || segment >= n {
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

// readControl reads the control messages of a datagram: its TTL, and the size of each
// if it was merged of several.
func readControl(oob []byte) (a arrival, segment int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return a, 0
	}
	for _, m := range messages {
		if len(m.Data) < 4 {
			continue
		}
		switch value := int(int32(binary.NativeEndian.Uint32(m.Data))); {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL:
			a.TTL = value
		case m.Header.Level == unix.IPPROTO_UDP && m.Header.Type == unix.UDP_GRO:
			segment = value
		}
	}
	return a, segment
}

// openIGMP hears the IGMP packets that come in by an interface, without their IP headers.
// It needs CAP_NET_RAW (raw(7)).
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
