package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/transport/internal/urlopt"
)

// options are the keys of a URL's query; each sets fields of a Config.
var options = urlopt.Set[Config]{
	"iface": func(c *Config, val string) error {
		if val == "" {
			return errors.New("names no interface: leave it out for the one of the default route")
		}
		c.Interface = val
		return nil
	},
	"port":   func(c *Config, val string) error { return urlopt.AtLeast(&c.Port, val, 1) },
	"groups": func(c *Config, val string) error { return urlopt.AtLeast(&c.Groups, val, 1) },
	"size":   func(c *Config, val string) error { return urlopt.AtLeast(&c.PacketSize, val, 1) },
	"uport":  func(c *Config, val string) error { return urlopt.AtLeast(&c.UnicastPort, val, 0) },
	"lend":   func(c *Config, val string) error { return urlopt.AtLeast(&c.LendMax, val, 1) },
	"peers":  func(c *Config, val string) error { return urlopt.AtLeast(&c.Peers, val, 1) },
	"rcvbuf": func(c *Config, val string) error { return urlopt.Bytes(&c.ReceiveBuffer, val) },
	"sndbuf": func(c *Config, val string) error { return urlopt.Bytes(&c.SendBuffer, val) },
	"gso":    func(c *Config, val string) error { return urlopt.Offload(&c.NoGSO, val) },
	"gro":    func(c *Config, val string) error { return urlopt.Offload(&c.NoGRO, val) },
	"ttl": func(c *Config, val string) error {
		err := urlopt.Number(&c.TTL, val, 0, 255)
		if err == nil && c.TTL == 0 {
			c.TTL = -1
		}
		return err
	},
	"loop": func(c *Config, val string) error {
		on, err := strconv.ParseBool(val)
		if err != nil {
			return fmt.Errorf("must be true or false")
		}
		c.NoLoopback = !on
		return nil
	},
}

// Parse reads a configuration from a URL:
//
//	udp://239.20.0.0/16?iface=eth0&port=7400&groups=16&ttl=1&loop=true&size=1472
//	udp://[ff15::20:0]/112?iface=eth0
//	udp://
//
// The host is the first group's address and the path the length of the prefix that all groups lie in; without a path
// the range is that one address, and without a host it is 239.20.0.0/16. A port may follow the host. Options and their
// defaults, described at the fields of Config:
//
//	iface=NAME|ADDRESS  port=7400   groups=16  ttl=1  loop=true  size=1472
//	rcvbuf=8M  sndbuf=2M  gso=auto|off  gro=auto|off  uport=0  lend=192  peers=4096
//
// Buffers are in bytes, or with K, M or G in multiples of 1024. Each error is one sentence with a remedy.
func Parse(u *url.URL) (Config, error) {
	var c Config
	if u.Scheme != "udp" {
		return c, fmt.Errorf("udp: the scheme of %q is not udp", u.Redacted())
	}
	if u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return c, fmt.Errorf("udp: %q is not of the form udp://address/bits?option=value", u.Redacted())
	}
	if err := c.parseRange(u); err != nil {
		return c, err
	}
	query, err := urlopt.Query(u)
	if err != nil {
		return c, err
	}
	if port := u.Port(); port != "" {
		if query.Has("port") {
			return c, fmt.Errorf("udp: %q gives the port twice; leave one out", u.Redacted())
		}
		query.Set("port", port)
	}
	if err := options.Read(&c, u.Scheme, query); err != nil {
		return c, err
	}
	_, err = c.withDefaults()
	return c, err
}

// parseRange reads the host and the path.
func (c *Config) parseRange(u *url.URL) error {
	host, path := u.Hostname(), strings.Trim(u.Path, "/")
	if host == "" {
		if path != "" {
			if bits, err := strconv.Atoi(path); err != nil || bits < 16 || bits > 32 { // of the address in the advice
				path = "16"
			}
			return fmt.Errorf("udp: %q has a prefix length but no address; write udp://239.20.0.0/%s", u.Redacted(), path)
		}
		return nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("udp: %q is not an IP address; give the first group's address, such as udp://239.20.0.0/16", host)
	}
	if addr.Is4In6() || addr.Zone() != "" {
		return fmt.Errorf("udp: %q: write a plain IPv4 or IPv6 address, and the interface as iface=", host)
	}
	bits := addr.BitLen()
	if path != "" {
		bits, err = strconv.Atoi(path)
		if err != nil || bits < 0 || bits > addr.BitLen() {
			return fmt.Errorf("udp: %q is not a prefix length; after the address comes /0 to /%d", u.Path, addr.BitLen())
		}
	}
	c.Range = netip.PrefixFrom(addr, bits)
	return nil
}
