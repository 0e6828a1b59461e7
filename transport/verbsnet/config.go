package verbsnet

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fanfaremq/fanfare/transport/internal/urlopt"
)

// Config describes an endpoint.
type Config struct {
	// Device is the name of an RDMA device ("mlx5_0"), of the network interface of one of its ports ("ib0", "eth0"), or an
	// address of such an interface; default the first device with an active port.
	Device string
	// Port of a device that is given by its name, from 1; default the first active one.
	Port int
	// Range, Groups, PacketSize, ReceiveQueue, SendQueue, Arena and Peers are those of ud.Config.
	Range                                                     netip.Prefix
	Groups, PacketSize, ReceiveQueue, SendQueue, Arena, Peers int
	Logger                                                    *slog.Logger
}

// options are the keys of a URL's query.
var options = urlopt.Set[Config]{
	"port":   func(c *Config, val string) error { return urlopt.Number(&c.Port, val, 1, 255) },
	"groups": func(c *Config, val string) error { return urlopt.Number(&c.Groups, val, 1, 1<<16) },
	"size":   func(c *Config, val string) error { return urlopt.Number(&c.PacketSize, val, 64, 4096) },
	"rq":     func(c *Config, val string) error { return urlopt.Number(&c.ReceiveQueue, val, 16, 1<<16) },
	"sq":     func(c *Config, val string) error { return urlopt.Number(&c.SendQueue, val, 16, 1<<16) },
	"arena":  func(c *Config, val string) error { return urlopt.Bytes(&c.Arena, val) },
	"peers":  func(c *Config, val string) error { return urlopt.Number(&c.Peers, val, 1, 1<<16-1) },
}

// Parse reads a configuration from a URL:
//
//	rdma://mlx5_0
//	rdma://ib0/239.20.0.0/16?groups=64
//	rdma://10.0.0.1
//
// The host is an RDMA device, a network interface, or an address of one (IPv6 in brackets); without a host the first
// device with an active port is used. The path is the range of all groups; IPv6 works on InfiniBand only. Options and
// their defaults are
//
//	groups=16  size=MTU  rq=4096  sq=512  arena=0  peers=4096  port=the first active
//
// size is the size of packets in bytes: if the MTUs of hosts differ, set the smallest on all hosts. arena is the memory
// for published packets that is registered at first, in bytes or with K, M or G in multiples of 1024: 9M is enough for
// one group with the default window.
func Parse(u *url.URL) (Config, error) { return parseWith(u, options) }

// ParseDevice is Parse of a URL that names a device only, without options.
func ParseDevice(u *url.URL) (Config, error) { return parseWith(u, nil) }

func parseWith(u *url.URL, options urlopt.Set[Config]) (Config, error) {
	c := Config{Device: u.Hostname()}
	if u.Scheme != "rdma" {
		return c, fmt.Errorf("rdma: the scheme of %q is not rdma", u.Redacted())
	}
	if u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Port() != "" {
		return c, fmt.Errorf("rdma: %q is not of the form rdma://device/range?option=value", u.Redacted())
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		r, err := netip.ParsePrefix(path)
		if err != nil || !r.Addr().IsMulticast() || !r.Masked().Addr().IsMulticast() {
			return c, fmt.Errorf("rdma: %q is not a range of groups; after the device comes one such as /239.20.0.0/16", path)
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
