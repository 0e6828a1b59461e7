// Package multicast checks whether network interfaces support multicast.
package multicast

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// Check returns an error with a remedy if an interface does not support multicast: it lacks the flag MULTICAST
// (ip-link(8)). Loopback supports it, on Linux also without the flag.
func Check(ifc *net.Interface, is4 bool) error {
	if Can(ifc) {
		return nil
	}
	other := unnamed
	if all, err := sys.Interfaces(); err == nil {
		other = instead(all, is4)
	}
	return fmt.Errorf("interface %s does not support multicast, because it lacks the flag MULTICAST: %s, or turn it on (ip link set %s multicast on)",
		ifc.Name, other, ifc.Name)
}

// Can reports whether an interface supports multicast.
func Can(ifc *net.Interface) bool { return ifc.Flags&(net.FlagMulticast|net.FlagLoopback) != 0 }

// unnamed is the advice if the other interfaces cannot be listed.
const unnamed = "use another one"

// instead is the advice to use another interface: the most suitable one, loopback last.
func instead(all []net.Interface, is4 bool) string {
	name := ""
	for i := range all {
		l := &all[i]
		if l.Flags&net.FlagUp == 0 || !Can(l) {
			continue
		}
		addrs, err := sys.InterfaceAddrs(l)
		if err != nil {
			return unnamed
		}
		if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Is4() == is4 }) {
			continue
		}
		if l.Flags&net.FlagLoopback == 0 {
			return "use " + l.Name
		}
		name = l.Name
	}
	if name != "" {
		return "only " + name + " does, within this host: use that"
	}
	return "no other interface here does"
}
