package doctor

import (
	"net"
	"net/netip"
	"os"

	"github.com/fanfaremq/fanfare/internal/netif"
	"github.com/fanfaremq/fanfare/rdma/verbs"
)

// ThisHost gathers the facts of this host. The buffers that are asked for, and
// the interface that udp:// takes, are for the caller to fill in.
func ThisHost() *Facts {
	f := &Facts{Root: os.DirFS("/"), Addrs: map[string][]netip.Addr{}, MemlockBytes: memlockLimit(), Filters: nftables}
	links, _ := net.Interfaces() // without any there are none to tell of
	f.Links = append([]net.Interface{}, links...)
	for _, l := range links {
		f.Addrs[l.Name], _ = netif.Addrs(&l)
	}
	f.Verbs, f.VerbsErr = verbs.Open()
	return f
}
