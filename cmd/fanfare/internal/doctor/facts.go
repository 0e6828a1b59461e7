package doctor

import (
	"net"
	"net/netip"
	"os"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma/verbs"
)

// ThisHost gathers the facts of this host. The buffers that are asked for, and
// the interface that udp:// takes, are for the caller to fill in.
func ThisHost() (*Facts, error) {
	f := &Facts{Root: os.DirFS("/"), Addrs: map[string][]netip.Addr{}, MemlockBytes: memlockLimit(), Filters: nftables}
	links, err := sys.Interfaces()
	if err != nil {
		return nil, err
	}
	f.Links = append([]net.Interface{}, links...)
	for _, l := range links {
		if f.Addrs[l.Name], err = sys.InterfaceAddrs(&l); err != nil {
			return nil, err
		}
	}
	f.Verbs, f.VerbsErr = verbs.Open()
	return f, nil
}
