package fabricurl

import (
	"errors"
	"net/netip"

	"github.com/fanfaremq/fanfare/transport/rocenet"
	"github.com/fanfaremq/fanfare/transport/udp"
	"github.com/fanfaremq/fanfare/transport/verbsnet"
)

// Groups returns the address of the first group of the URL and the number of groups, without opening anything. The port
// is 0 if the fabric has none. docs/protocol §16.1, §17.2.
func (f *Fabric) Groups() (first netip.AddrPort, n int, err error) {
	var udpConfig udp.Config
	switch f.url.Scheme {
	case "udp":
		udpConfig, err = udp.Parse(f.own)
	case "roce":
		var c rocenet.Config
		c, err = rocenet.Parse(f.own)
		udpConfig = udp.Config{Range: c.Range, Groups: c.Groups}
	case "rdma":
		var c verbsnet.Config
		c, err = verbsnet.Parse(f.own)
		udpConfig = udp.Config{Range: c.Range, Groups: c.Groups}
	default:
		err = errors.New("the groups of this fabric have no addresses: only those of udp://, roce:// and rdma:// have")
	}
	if err == nil {
		first, n, err = udpConfig.Addresses() // with the same defaults: docs/protocol §15.4
	}
	if err != nil {
		return netip.AddrPort{}, 0, f.error(err)
	}
	if f.url.Scheme != "udp" {
		first = netip.AddrPortFrom(first.Addr(), 0)
	}
	return first, n, nil
}
