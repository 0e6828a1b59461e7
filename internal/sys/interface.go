package sys

// A look-up of an interface has three results: found, absent (ErrNoInterface), and unknown: any other
// error. After the last the caller keeps its state, and tries again.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// ErrNoInterface matches errors that mean that no such interface exists, or none with the address.
var ErrNoInterface = errors.New("no such network interface")

// lookupError classifies the error of a look-up by package net. A system that does not answer returns an
// errno, for example when the process has no free descriptor.
func lookupError(what string, err error) error {
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &errno), errno == syscall.ENODEV, errno == syscall.ENXIO:
		return fmt.Errorf("%s: %w", what, ErrNoInterface)
	case errno == syscall.EMFILE:
		return fmt.Errorf("cannot %s: this process may have no more open files, raise its limit (ulimit -n): %w", what, err)
	case errno == syscall.ENFILE:
		return fmt.Errorf("cannot %s: this host may have no more open files, raise fs.file-max (sysctl): %w", what, err)
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// Interfaces are the interfaces of this host.
func Interfaces() ([]net.Interface, error) {
	all, err := net.Interfaces()
	return all, lookupError("list the network interfaces", err)
}

// InterfaceByName is the interface of a name.
func InterfaceByName(name string) (*net.Interface, error) {
	ifc, err := net.InterfaceByName(name)
	return ifc, lookupError("look up network interface "+name, err)
}

// InterfaceByIndex is the interface of an index.
func InterfaceByIndex(index int) (*net.Interface, error) {
	ifc, err := net.InterfaceByIndex(index)
	return ifc, lookupError(fmt.Sprintf("look up network interface %d", index), err)
}

// InterfaceAddrs are the addresses of an interface, without zones. An interface that was just removed may have none.
func InterfaceAddrs(ifc *net.Interface) ([]netip.Addr, error) {
	list, err := ifc.Addrs()
	if err != nil {
		return nil, lookupError("list the addresses of network interface "+ifc.Name, err)
	}
	var addrs []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}

// FindInterface is the interface with a name or an address. Any address of loopback's network is loopback's.
func FindInterface(name string) (*net.Interface, error) {
	addr, err := netip.ParseAddr(name)
	if err != nil {
		ifc, err := InterfaceByName(name)
		if errors.Is(err, ErrNoInterface) {
			return nil, noneError(fmt.Sprintf("no network interface is called %q: 'ip link' lists them", name))
		}
		return ifc, err
	}
	all, err := Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range all {
		addrs, err := InterfaceAddrs(&all[i])
		if err != nil && !errors.Is(err, ErrNoInterface) {
			return nil, err
		}
		if slices.Contains(addrs, addr.Unmap()) || all[i].Flags&net.FlagLoopback != 0 &&
			addr.Unmap().IsLoopback() && addr.Unmap().Is4() {
			return &all[i], nil
		}
	}
	return nil, noneError(fmt.Sprintf("no network interface has address %v: 'ip address' lists them", addr))
}

// noneError says in its own words that there is none.
type noneError string

func (e noneError) Error() string        { return string(e) }
func (e noneError) Is(target error) bool { return target == ErrNoInterface }

// LoopbackName is the name of the loopback interface.
func LoopbackName() string {
	all, _ := net.Interfaces() // else the usual name
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	return "lo"
}
