package sys

// A lookup of an interface has three results: found, absent (ErrNoInterface), and unknown (any other error). If
// unknown, the caller keeps its state and tries again.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// ErrNoInterface matches the errors of lookups for an interface that does not exist, or an address that no interface
// has.
var ErrNoInterface = errors.New("no such network interface")

// lookupError classifies an error of package net. If the lookup itself failed, the error has an errno, for example
// because the process has no free descriptor.
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

// Interfaces returns the network interfaces of this host.
func Interfaces() ([]net.Interface, error) {
	all, err := net.Interfaces()
	return all, lookupError("list the network interfaces", err)
}

// InterfaceByName returns the interface with a name.
func InterfaceByName(name string) (*net.Interface, error) {
	ifc, err := net.InterfaceByName(name)
	return ifc, lookupError("look up network interface "+name, err)
}

// InterfaceByIndex returns the interface with an index.
func InterfaceByIndex(index int) (*net.Interface, error) {
	ifc, err := net.InterfaceByIndex(index)
	return ifc, lookupError(fmt.Sprintf("look up network interface %d", index), err)
}

// InterfaceAddrs returns the addresses of an interface, without zones. An interface that was just removed may have
// none.
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

// FindInterface returns the interface with a name or an address. Every address of the loopback network belongs to the
// loopback interface.
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

// noneError is the text of an error that matches ErrNoInterface.
type noneError string

func (e noneError) Error() string        { return string(e) }
func (e noneError) Is(target error) bool { return target == ErrNoInterface }

// LoopbackName returns the name of the loopback interface.
func LoopbackName() string {
	all, _ := net.Interfaces() // else the usual name
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	return "lo"
}
