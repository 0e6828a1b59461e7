//go:build rdma && linux && cgo

package verbs

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// sysNet is the kernel's directory of network interfaces.
const sysNet = "/sys/class/net"

// interfaceName returns the name of the interface with the index; "" for no interface, or one in another network
// namespace.
func interfaceName(op string, index int) (string, error) {
	switch i, err := sys.InterfaceByIndex(index); {
	case errors.Is(err, sys.ErrNoInterface): // also for index 0
		return "", nil
	case err != nil:
		return "", queryFailed(op, err)
	default:
		return i.Name, nil
	}
}

// queryFailed returns the error of a failed query of an interface.
func queryFailed(op string, err error) error {
	errno := syscall.EIO
	errors.As(err, &errno)
	return rdma.Errorf(op, errno, "%v", err)
}

// interfaces returns the name of the network interface of a port, and the addresses of all its interfaces: those of
// VLANs have GIDs on the same port.
func (d *device) interfaces(num uint8, gids []rdma.GIDEntry) (name string, addrs []netip.Addr, err error) {
	var names []string
	for _, g := range gids {
		if g.NetDev != "" && !slices.Contains(names, g.NetDev) {
			names = append(names, g.NetDev)
		}
	}
	if len(names) == 0 && d.ports[num].layer != rdma.LinkLayerEthernet {
		names = ipoibOf(d.name, num)
	}
	for _, n := range names {
		i, err := sys.InterfaceByName(n)
		if errors.Is(err, sys.ErrNoInterface) {
			continue
		}
		if err != nil {
			return "", nil, queryFailed("query port", err)
		}
		list, err := sys.InterfaceAddrs(i)
		if err != nil {
			return "", nil, queryFailed("query port", err)
		}
		for _, a := range list {
			// An IPv6 link-local address needs a zone, which ids do not support.
			if a.Is4() || !a.IsLinkLocalUnicast() {
				addrs = append(addrs, a)
			}
		}
	}
	if len(names) > 0 {
		name = names[0]
	}
	return name, addrs, nil
}

// ipoibOf returns the IPoIB interfaces of a device's port. In the kernel's directory an interface has its adapter, and
// its port, from 0, in dev_port or the older dev_id.
func ipoibOf(device string, num uint8) (names []string) {
	dirs, err := filepath.Glob(filepath.Join(sysNet, "*", "device", "infiniband", device))
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		base := strings.TrimSuffix(dir, filepath.Join("/device", "infiniband", device))
		port := max(sysNumber(base, "dev_port"), sysNumber(base, "dev_id"))
		if port == int(num)-1 {
			names = append(names, filepath.Base(base))
		}
	}
	return names
}

// sysNumber returns a number of an interface, 0 if it cannot be read.
func sysNumber(dir, file string) int {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 0, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
