package verbsnet

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Config describes an endpoint.
type Config struct {
	// Device is the name of an RDMA device ("mlx5_0"), of the network interface
	// of one of its ports ("ib0", "eth0"), or an address of that; default the
	// first device with an active port.
	Device string
	// Port of a device that is given by name, from 1; default the first that is
	// active.
	Port int
	// Range, Groups, PacketSize, ReceiveQueue, SendQueue and Peers are those of
	// ud.Config.
	Range                                              netip.Prefix
	Groups, PacketSize, ReceiveQueue, SendQueue, Peers int
	Logger                                             *slog.Logger
}

// options are the keys of a URL's query.
var options = map[string]func(c *Config, val string) error{
	"port":   func(c *Config, val string) error { return number(&c.Port, val, 1, 255) },
	"groups": func(c *Config, val string) error { return number(&c.Groups, val, 1, 1<<16) },
	"size":   func(c *Config, val string) error { return number(&c.PacketSize, val, 64, 4096) },
	"rq":     func(c *Config, val string) error { return number(&c.ReceiveQueue, val, 16, 1<<16) },
	"sq":     func(c *Config, val string) error { return number(&c.SendQueue, val, 16, 1<<16) },
	"peers":  func(c *Config, val string) error { return number(&c.Peers, val, 1, 1<<16-1) },
}

// Parse reads a configuration from a URL:
//
//	rdma://mlx5_0
//	rdma://ib0/239.20.0.0/16?groups=64
//	rdma://10.0.0.1
//
// The host is an RDMA device, a network interface, or an address of one (IPv6 in
// brackets); without it the first device is taken that has an active port. The
// path is the range that all groups lie in; IPv6 works on InfiniBand only.
// Options and their defaults are
//
//	groups=16  size=MTU  rq=4096  sq=512  peers=4096  port=the first active
//
// size is the size of packets in bytes: where the MTUs of hosts differ, give the
// smallest everywhere.
func Parse(u *url.URL) (Config, error) {
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
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, fmt.Errorf("rdma: the options of %q cannot be read: %w", u.Redacted(), err)
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		vals := query[key]
		set, ok := options[key]
		if !ok {
			return c, fmt.Errorf("rdma: unknown option %q; known are %s", key, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if len(vals) > 1 {
			return c, fmt.Errorf("rdma: option %s is given %d times; leave one", key, len(vals))
		}
		if err := set(&c, vals[0]); err != nil {
			return c, fmt.Errorf("rdma: option %s=%s %w", key, vals[0], err)
		}
	}
	return c, nil
}

func number(dst *int, val string, low, high int) error {
	n, err := strconv.Atoi(val)
	if err != nil || n < low || n > high {
		return fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	*dst = n
	return nil
}
