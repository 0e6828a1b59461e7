//go:build !fanfare_plainudp

package udp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// linkWatch is a socket at which the kernel tells of every change of an
// interface or its addresses (rtnetlink(7)). Loop only.
type linkWatch struct {
	fd   int  // or -1: the system, a sandbox perhaps, does not tell
	news bool // epoll says that there is something to read
	// buf holds any message: an interface takes some 2 KiB.
	buf [32 << 10]byte
}

func newLinkWatch() (*linkWatch, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("udp: watch interfaces: netlink socket: %w", err)
	}
	groups := uint32(1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1))
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		fd = -1
	}
	return &linkWatch{fd: fd}, nil
}

// read returns messages, or nothing when there are none left. It reports true if
// some were lost because the socket's buffer was full.
func (w *linkWatch) read() (b []byte, lost bool) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(w.fd), uintptr(unsafe.Pointer(&w.buf)), uintptr(len(w.buf)))
		switch errno {
		case 0:
			return w.buf[:n], lost
		case unix.EINTR:
		case unix.ENOBUFS:
			lost = true
		default: // EAGAIN, or EBADF without a socket
			return nil, lost
		}
	}
}

// discard reads everything away and reports whether there was something.
func (w *linkWatch) discard() (any bool) {
	for {
		b, lost := w.read()
		any = any || lost || len(b) > 0
		if len(b) == 0 {
			return any
		}
	}
}

func (w *linkWatch) close() {
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
}

// linkChange is what a message says.
type linkChange struct {
	kind  linkChangeKind
	index int    // of the interface
	flags uint32 // of the interface, IFF_UP …; only for linkChanged
}

type linkChangeKind uint8

const (
	linkIrrelevant linkChangeKind = iota
	linkUnknown                   // something was lost, or cannot be read
	linkChanged
	linkDeleted
	addrChanged
)

// parseLinkChange reads the first message in b, which is aligned for NlMsghdr,
// and returns what follows it (netlink(7)).
func parseLinkChange(b []byte) (c linkChange, rest []byte) {
	if len(b) < unix.SizeofNlMsghdr {
		return linkChange{kind: linkUnknown}, nil
	}
	h := (*unix.NlMsghdr)(unsafe.Pointer(&b[0]))
	size := int(h.Len)
	if size < unix.SizeofNlMsghdr || size > len(b) {
		return linkChange{kind: linkUnknown}, nil
	}
	body := b[unix.SizeofNlMsghdr:size]
	rest = b[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b)):]
	switch h.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(body) < unix.SizeofIfInfomsg {
			return linkChange{kind: linkUnknown}, rest
		}
		m := (*unix.IfInfomsg)(unsafe.Pointer(&body[0]))
		switch {
		case m.Family != unix.AF_UNSPEC: // about a port of a bridge
		case h.Type == unix.RTM_DELLINK:
			c = linkChange{kind: linkDeleted, index: int(m.Index)}
		default:
			c = linkChange{kind: linkChanged, index: int(m.Index), flags: m.Flags}
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(body) < unix.SizeofIfAddrmsg {
			return linkChange{kind: linkUnknown}, rest
		}
		m := (*unix.IfAddrmsg)(unsafe.Pointer(&body[0]))
		c = linkChange{kind: addrChanged, index: int(m.Index)}
	}
	return c, rest
}

// Why a link is lost. They match the errno that the kernel has for it.

func linkGone(name string) error {
	return fmt.Errorf("udp: interface %s is gone: %w", name, unix.ENODEV)
}

func linkDown(name string) error {
	return fmt.Errorf("udp: interface %s is down: %w", name, unix.ENETDOWN)
}

func linkCut(name string) error {
	return fmt.Errorf("udp: interface %s has no carrier: %w", name, unix.ENETDOWN)
}

// again finds the interface as it is now: the same one if it still exists, else
// one that has the configured address, or else the name that it had. It keeps
// its address while it has it.
func (l *link) again(cfg *Config) (link, error) {
	is4 := cfg.Range.Addr().Is4()
	wanted, err := netip.ParseAddr(cfg.Interface)
	byAddr := err == nil
	ifc, err := net.InterfaceByIndex(l.index)
	if err != nil && byAddr {
		now, err := linkOfAddr(wanted, is4)
		if err != nil {
			return link{}, linkGone(l.name)
		}
		ifc, err = net.InterfaceByIndex(now.index)
		if err != nil {
			return link{}, linkGone(l.name)
		}
	} else if err != nil {
		if ifc, err = net.InterfaceByName(l.name); err != nil {
			return link{}, linkGone(l.name)
		}
	}
	if ifc.Flags&net.FlagUp == 0 {
		return link{}, linkDown(ifc.Name)
	}
	now, ok := linkOf(ifc, is4)
	switch old := l.addr.WithZone(""); {
	case slices.Contains(addrsOf(ifc), old):
		now.addr = zoned(old, ifc.Name)
	case !ok, byAddr:
		return link{}, fmt.Errorf("udp: interface %s has lost its address %v: %w", ifc.Name, old, unix.EADDRNOTAVAIL)
	}
	if err := now.usable(cfg); err != nil {
		return link{}, fmt.Errorf("udp: address %v of interface %s cannot be used yet: %w", now.addr, ifc.Name, err)
	}
	return now, nil
}

// usable returns an error while an IPv6 address is new, and the neighbours are
// being asked whether they have it (RFC 4862 section 5.4): it cannot be bound
// then, and what is sent to it is dropped.
func (l *link) usable(cfg *Config) error {
	if l.addr.Is4() {
		return nil
	}
	s, err := newSocket(cfg, l, transport.Unicast)
	if err != nil {
		return err
	}
	defer s.close()
	return s.bind(netip.AddrPortFrom(l.addr, 0), l)
}
