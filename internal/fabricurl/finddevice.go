package fabricurl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// find returns the device, port and address of a provider for name, which is a device, a network interface or an
// address; without a name the first active port. Error ENODEV: there is none; its text lists the existing ones.
func find(p rdma.Provider, name string) (*Host, error) {
	devices, err := p.Devices()
	if err != nil {
		return nil, err
	}
	var known []string
	for _, device := range devices {
		h, err := match(p, device, name, &known)
		if h != nil || err != nil {
			return h, err
		}
	}
	switch {
	case len(devices) == 0:
		return nil, rdma.Errorf("open device", syscall.ENODEV, "this host has no RDMA device that %s can use", p.Name())
	case name == "":
		return nil, rdma.Errorf("open device", syscall.ENODEV, "no active port has an address; this host has %s", strings.Join(known, ", "))
	}
	return nil, rdma.Errorf("open device", syscall.ENODEV, "there is no device, interface or address %q; this host has %s", name, strings.Join(known, ", "))
}

// match checks the ports of one device for name, and adds them to known.
func match(p rdma.Provider, device, name string, known *[]string) (*Host, error) {
	dev, err := p.OpenDevice(device)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	attr, err := dev.Attr()
	if err != nil {
		return nil, err
	}
	for num := uint8(1); int(num) <= attr.PhysPorts; num++ {
		port, err := dev.Port(num)
		if err != nil {
			return nil, err
		}
		addr, ok := address(port.Addrs, name)
		called := device == name || name != "" && port.NetDev == name || slices.ContainsFunc(port.Addrs, func(a netip.Addr) bool { return a.String() == name })
		if called && !ok {
			return nil, rdma.Errorf("open device", syscall.EADDRNOTAVAIL, "%s port %d has no IP address: give its interface %s one", device, num, port.NetDev)
		}
		if called || name == "" && ok && port.State == rdma.PortActive {
			return &Host{Provider: p, Device: device, Port: num, Addr: rdma.IPAddr(addr)}, nil
		}
		*known = append(*known, fmt.Sprintf("%s (port %d, %v, %s)", device, num, port.State, port.NetDev))
	}
	return nil, nil
}

// address returns the address in addrs that name spells, otherwise the first IPv4 address, otherwise the first.
func address(addrs []netip.Addr, name string) (netip.Addr, bool) {
	for _, a := range addrs {
		if a.String() == name {
			return a, true
		}
	}
	for _, a := range addrs {
		if a.Is4() {
			return a, true
		}
	}
	if len(addrs) > 0 {
		return addrs[0], true
	}
	return netip.Addr{}, false
}
