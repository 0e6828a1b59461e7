//go:build !fanfare_plainudp

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// Errors for a lost link. They match the kernel's errno.

func linkGone(name string) error {
	return fmt.Errorf("udp: interface %s is gone: %w", name, unix.ENODEV)
}

func linkDown(name string) error {
	return fmt.Errorf("udp: interface %s is down: %w", name, unix.ENETDOWN)
}

func linkCut(name string) error {
	return fmt.Errorf("udp: interface %s has no carrier: %w", name, unix.ENETDOWN)
}

// isAway reports whether an error of current means that the interface cannot be used. Other errors mean that it could
// not be checked.
func isAway(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// current finds the interface to use now: the same one if it still exists, else one with the configured address, else
// one with the old name. The address is kept while the interface has it.
func (l *link) current(cfg *Config) (link, error) {
	is4 := cfg.Range.Addr().Is4()
	required, err := netip.ParseAddr(cfg.Interface)
	byAddr := err == nil
	ifc, err := sys.InterfaceByIndex(l.index)
	if errors.Is(err, sys.ErrNoInterface) {
		if byAddr {
			ifc, _, err = withAddr(required)
		} else {
			ifc, err = sys.InterfaceByName(l.name)
		}
	}
	switch {
	case errors.Is(err, sys.ErrNoInterface):
		return link{}, linkGone(l.name)
	case err != nil:
		return link{}, err
	case ifc.Flags&net.FlagUp == 0:
		return link{}, linkDown(ifc.Name)
	}
	addrs, err := sys.InterfaceAddrs(ifc)
	if err != nil {
		return link{}, err
	}
	now, ok := linkOf(ifc, addrs, is4)
	switch old := l.addr.WithZone(""); {
	case slices.Contains(addrs, old):
		now.addr = zoned(old, ifc.Name)
	case !ok, byAddr:
		return link{}, fmt.Errorf("udp: interface %s has lost its address %v: %w", ifc.Name, old, unix.EADDRNOTAVAIL)
	}
	if err := now.usable(cfg); err != nil {
		return link{}, fmt.Errorf("udp: address %v of interface %s cannot be used yet: %w", now.addr, ifc.Name, err)
	}
	return now, nil
}

// usable returns an error during duplicate address detection of a new IPv6 address (RFC 4862 section 5.4): until then
// it cannot be bound, and packets to it are dropped.
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
