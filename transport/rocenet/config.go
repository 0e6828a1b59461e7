package rocenet

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport/internal/urlopt"
)

// Config describes an endpoint.
type Config struct {
	// Interface is the name of the network interface, or one of its addresses; default the first one
	// that is up and has an address of Range's family, loopback as the last.
	Interface string
	// Range, Groups, PacketSize, ReceiveQueue, SendQueue and Peers are those of ud.Config. Range is IPv4 by default, or
	// IPv6 if Interface is an IPv6 address: ff15::20:0/112. With IPv6 the complete ICRC of all packets is checked,
	// whatever Check is; but the connection manager of NICs and of the kernel's Soft-RoCE joins IPv4 groups only.
	Range                                              netip.Prefix
	Groups, PacketSize, ReceiveQueue, SendQueue, Peers int
	// Check, NoGSO, NoGRO, ReceiveBuffer, SendBuffer and RelayAnyUser are those of roce.Config.
	Check                     roce.Check
	NoGSO, NoGRO              bool
	ReceiveBuffer, SendBuffer int
	RelayAnyUser              bool
	Logger                    *slog.Logger
}

// options are the keys of a URL's query.
var options = urlopt.Set[Config]{
	"groups": func(c *Config, val string) error { return urlopt.Number(&c.Groups, val, 1, 8192) },
	"size":   func(c *Config, val string) error { return urlopt.Number(&c.PacketSize, val, 64, 4096) },
	"rq":     func(c *Config, val string) error { return urlopt.Number(&c.ReceiveQueue, val, 256, 1<<16) },
	"sq":     func(c *Config, val string) error { return urlopt.Number(&c.SendQueue, val, 16, 1<<16) },
	"peers":  func(c *Config, val string) error { return urlopt.Number(&c.Peers, val, 1, 1<<16-1) },
	"rcvbuf": func(c *Config, val string) error { return urlopt.Bytes(&c.ReceiveBuffer, val) },
	"sndbuf": func(c *Config, val string) error { return urlopt.Bytes(&c.SendBuffer, val) },
	"gso":    func(c *Config, val string) error { return urlopt.Offload(&c.NoGSO, val) },
	"gro":    func(c *Config, val string) error { return urlopt.Offload(&c.NoGRO, val) },
	"check": func(c *Config, val string) error {
		for _, check := range []roce.Check{roce.CheckBest, roce.CheckFull, roce.CheckUDP} {
			if check.String() == val {
				c.Check = check
				return nil
			}
		}
		return errors.New("must be best, full or udp")
	},
	"relay": func(c *Config, val string) error {
		switch val {
		case "user":
			c.RelayAnyUser = false
		case "any":
			c.RelayAnyUser = true
		default:
			return errors.New("must be user or any")
		}
		return nil
	},
}

// Parse reads a configuration from a URL:
//
//	roce://eth0
//	roce://eth0/239.20.0.0/16?groups=64
//	roce://10.0.0.1
//	roce://eth0/ff15::20:0/112
//	roce://[fd00::1]
//
// The host is a network interface, or an address of one; without a host the first interface that is up is used. The
// path is the range of all groups. Options and their defaults are
//
//	groups=16  size=MTU  rq=512  sq=512  peers=4096
//	check=best|full|udp  gso=auto|off  gro=auto|off  rcvbuf=8M  sndbuf=4M  relay=user|any
//
// Buffers are in bytes, or with K, M or G in multiples of 1024.
func Parse(u *url.URL) (Config, error) { return parseWith(u, options) }

// ParseDevice is Parse for a URL that names only a device, with check as its only option.
func ParseDevice(u *url.URL) (Config, error) {
	return parseWith(u, urlopt.Set[Config]{"check": options["check"]})
}

func parseWith(u *url.URL, options urlopt.Set[Config]) (Config, error) {
	c := Config{Interface: u.Hostname()}
	if u.Scheme != "roce" {
		return c, fmt.Errorf("roce: the scheme of %q is not roce", u.Redacted())
	}
	if u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Port() != "" {
		return c, fmt.Errorf("roce: %q is not of the form roce://interface/range?option=value; the port is always 4791", u.Redacted())
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		r, err := netip.ParsePrefix(path)
		if err != nil || r.Addr().Is4In6() || !r.Masked().Addr().IsMulticast() {
			return c, fmt.Errorf("roce: %q is not a range of multicast groups; after the interface comes one such as /239.20.0.0/16 or /ff15::20:0/112", path)
		}
		c.Range = r
	}
	query, err := urlopt.Query(u)
	if err != nil {
		return c, err
	}
	err = options.Read(&c, u.Scheme, query)
	return c, err
}
