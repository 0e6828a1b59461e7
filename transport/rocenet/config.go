package rocenet

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/rdma/roce"
)

// Config describes an endpoint.
type Config struct {
	// Interface is the name of the network interface, or one of its addresses;
	// default the first that is up and has an address, loopback as the last.
	Interface string
	// Range, Groups, PacketSize, ReceiveQueue, SendQueue and Peers are those of
	// ud.Config. Range is IPv4: the connection manager joins no others on
	// RoCEv2.
	Range                                              netip.Prefix
	Groups, PacketSize, ReceiveQueue, SendQueue, Peers int
	// Check, NoGSO, NoGRO, ReceiveBuffer, SendBuffer and RelayAnyUser are those
	// of roce.Config.
	Check                     roce.Check
	NoGSO, NoGRO              bool
	ReceiveBuffer, SendBuffer int
	RelayAnyUser              bool
	Logger                    *slog.Logger
}

// options are the keys of a URL's query.
var options = map[string]func(c *Config, val string) error{
	"groups": func(c *Config, val string) error { return number(&c.Groups, val, 1, 8192) },
	"size":   func(c *Config, val string) error { return number(&c.PacketSize, val, 64, 4096) },
	"rq":     func(c *Config, val string) error { return number(&c.ReceiveQueue, val, 256, 1<<16) },
	"sq":     func(c *Config, val string) error { return number(&c.SendQueue, val, 16, 1<<16) },
	"peers":  func(c *Config, val string) error { return number(&c.Peers, val, 1, 1<<16-1) },
	"rcvbuf": func(c *Config, val string) error { return bytes(&c.ReceiveBuffer, val) },
	"sndbuf": func(c *Config, val string) error { return bytes(&c.SendBuffer, val) },
	"gso":    func(c *Config, val string) error { return offload(&c.NoGSO, val) },
	"gro":    func(c *Config, val string) error { return offload(&c.NoGRO, val) },
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
//
// The host is a network interface, or an address of one; without it the first is
// taken that is up. The path is the range that all groups lie in. Options and
// their defaults are
//
//	groups=16  size=MTU  rq=512  sq=512  peers=4096
//	check=best|full|udp  gso=auto|off  gro=auto|off  rcvbuf=8M  sndbuf=4M  relay=user|any
//
// Buffers are in bytes, or with K, M or G in multiples of 1024.
func Parse(u *url.URL) (Config, error) {
	c := Config{Interface: u.Hostname()}
	if u.Scheme != "roce" {
		return c, fmt.Errorf("roce: the scheme of %q is not roce", u.Redacted())
	}
	if u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Port() != "" {
		return c, fmt.Errorf("roce: %q is not of the form roce://interface/range?option=value; the port is always 4791", u.Redacted())
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		r, err := netip.ParsePrefix(path)
		if err != nil || !r.Addr().Is4() || !r.Masked().Addr().IsMulticast() {
			return c, fmt.Errorf("roce: %q is not a range of IPv4 groups; after the interface comes one such as /239.20.0.0/16", path)
		}
		c.Range = r
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, fmt.Errorf("roce: the options of %q cannot be read: %w", u.Redacted(), err)
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		vals := query[key]
		set, ok := options[key]
		if !ok {
			return c, fmt.Errorf("roce: unknown option %q; known are %s", key, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if len(vals) > 1 {
			return c, fmt.Errorf("roce: option %s is given %d times; leave one", key, len(vals))
		}
		if err := set(&c, vals[0]); err != nil {
			return c, fmt.Errorf("roce: option %s=%s %w", key, vals[0], err)
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

// maxBuffer bounds the sizes of socket buffers, in bytes.
const maxBuffer = 1 << 30

// bytes reads a number with an optional K, M or G.
func bytes(dst *int, val string) error {
	digits, shift := val, 0
	for i, unit := range []string{"K", "M", "G"} {
		if d, ok := strings.CutSuffix(strings.ToUpper(val), unit); ok {
			digits, shift = d, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxBuffer>>shift {
		return errors.New("must be from 1 to 1G bytes, such as 8388608 or 8M")
	}
	*dst = n << shift
	return nil
}

func offload(off *bool, val string) error {
	switch val {
	case "auto":
		*off = false
	case "off":
		*off = true
	default:
		return errors.New("must be auto or off")
	}
	return nil
}
