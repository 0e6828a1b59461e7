package sys

import (
	"encoding/binary"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// LinkWatch is a socket to which the kernel reports every change of a network interface or its addresses
// (rtnetlink(7)). The goroutine that waits for it reads it without blocking; netlink libraries block or start
// goroutines. Package syscall parses the messages. The zero value never reports a change.
type LinkWatch struct {
	fd      int
	reports bool
	// buf holds any message: an interface takes some 2 KiB.
	buf [32 << 10]byte
}

// LinkChange is one change.
type LinkChange struct {
	Kind  LinkChangeKind
	Index int    // of the interface
	Flags uint32 // of the interface (IFF_UP …); only with LinkChanged
}

// LinkChangeKind is the kind of a change.
type LinkChangeKind uint8

// Kinds of changes.
const (
	LinkOther   LinkChangeKind = iota // not reported here
	LinkUnknown                       // a message was lost or cannot be read: anything may have changed
	LinkChanged                       // the interface is new, or its flags or other properties changed
	LinkDeleted
	LinkAddresses // an address was added, removed or changed
)

// Open opens the socket. It returns no error if the system, for example a sandbox, does not report changes; see
// Reports.
func (w *LinkWatch) Open() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("netlink socket", err)
	}
	const groups = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil
	}
	w.fd, w.reports = fd, true
	return nil
}

// Reports reports whether the system reports changes.
func (w *LinkWatch) Reports() bool { return w.reports }

// AddTo adds the socket to a Poller, which reports id when there may be changes to read.
func (w *LinkWatch) AddTo(p *Poller, id int32) error {
	if !w.reports {
		return nil
	}
	return p.Add(w.fd, id, unix.EPOLLIN)
}

// Read returns the next changes, or none when all are read.
func (w *LinkWatch) Read() []LinkChange {
	for w.reports {
		n, err := unix.Read(w.fd, w.buf[:])
		switch {
		case err == unix.EINTR:
		case err == unix.ENOBUFS: // the socket's buffer was full
			return []LinkChange{{Kind: LinkUnknown}}
		case err != nil || n == 0: // EAGAIN
			return nil
		default:
			return parseLinkChanges(w.buf[:n])
		}
	}
	return nil
}

// Discard reads and drops all changes, and reports whether there were any.
func (w *LinkWatch) Discard() (any bool) {
	for len(w.Read()) > 0 {
		any = true
	}
	return any
}

// IsGone reports whether an interface with that index certainly does not exist (netdevice(7), SIOCGIFNAME). Unlike
// other calls it needs no new descriptor, so it cannot fail for lack of one.
func (w *LinkWatch) IsGone(index int) bool {
	r, err := unix.NewIfreq("")
	if err != nil || !w.reports {
		return false
	}
	r.SetUint32(uint32(index))
	err = unix.IoctlIfreq(w.fd, unix.SIOCGIFNAME, r)
	return err == unix.ENODEV || err == unix.ENXIO
}

// Close closes the socket.
func (w *LinkWatch) Close() {
	if w.reports {
		unix.Close(w.fd)
		w.reports = false
	}
}

// parseLinkChanges reads messages (netlink(7)).
func parseLinkChanges(b []byte) (changes []LinkChange) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil || len(messages) == 0 {
		return []LinkChange{{Kind: LinkUnknown}}
	}
	for _, m := range messages {
		c := LinkChange{}
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			var info unix.IfInfomsg
			switch _, err := binary.Decode(m.Data, binary.NativeEndian, &info); {
			case err != nil:
				c.Kind = LinkUnknown
			case info.Family != unix.AF_UNSPEC: // about a port of a bridge
			case m.Header.Type == unix.RTM_DELLINK:
				c = LinkChange{Kind: LinkDeleted, Index: int(info.Index)}
			default:
				c = LinkChange{Kind: LinkChanged, Index: int(info.Index), Flags: info.Flags}
			}
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			var info unix.IfAddrmsg
			if _, err := binary.Decode(m.Data, binary.NativeEndian, &info); err != nil {
				c.Kind = LinkUnknown
			} else {
				c = LinkChange{Kind: LinkAddresses, Index: int(info.Index)}
			}
		}
		changes = append(changes, c)
	}
	return changes
}
