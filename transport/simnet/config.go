package simnet

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport/internal/urlopt"
)

// Config describes an endpoint. The zero value is an endpoint on the subnet named "" of this process.
type Config struct {
	Name   string
	Subnet SubnetConfig
	// Groups, PacketSize, ReceiveQueue, SendQueue and Peers are those of ud.Config.
	Groups, PacketSize, ReceiveQueue, SendQueue, Peers int
	Logger                                             *slog.Logger

	// explicit: options of the subnet were set, so they must equal those of an existing subnet.
	explicit bool
}

// SubnetConfig describes a subnet: those fields of fabric.Config that a URL can give. It is comparable.
type SubnetConfig struct {
	Flavor fabric.Flavor
	// MTU of the ports in bytes; default 4096.
	MTU      rdma.MTU
	Switches int
	Latency  time.Duration
	// Loss, Duplicate and Reorder are probabilities, decided by Seed.
	Loss, Duplicate, Reorder float64
	Seed                     uint64
	// NoSendOnly: the subnet manager refuses send-only members. MLIDs is its number of multicast LIDs for groups; default
	// 16382. Both for InfiniBand only.
	NoSendOnly bool
	MLIDs      int
}

// ethernetHeaders is what an Ethernet interface needs in addition to the RDMA MTU, in bytes (kernel
// include/rdma/ib_addr.h, iboe_get_mtu).
const ethernetHeaders = 96

// Defaults of SubnetConfig.
const (
	defaultMTU      = 4096
	defaultSwitches = 1
	defaultMLIDs    = int(rdma.MLIDMax - rdma.MLIDMin) // less one for IPoIB
)

// withDefaults fills defaults in, so that an option set to its default equals an omitted one.
func (c SubnetConfig) withDefaults() SubnetConfig {
	if c.MTU == 0 {
		c.MTU = defaultMTU
	}
	if c.Switches == 0 {
		c.Switches = defaultSwitches
	}
	if c.MLIDs == 0 {
		c.MLIDs = defaultMLIDs
	}
	return c
}

// fabric returns the configuration of the simulated subnet.
func (c SubnetConfig) fabric() fabric.Config {
	c = c.withDefaults()
	return fabric.Config{
		Live: true, Flavor: c.Flavor, Seed: c.Seed, Switches: c.Switches, Latency: c.Latency, MTU: c.MTU,
		NetDevMTU: int(c.MTU) + ethernetHeaders,
		SM:        fabric.SM{NoSendOnly: c.NoSendOnly, MLIDs: c.MLIDs + 1}, // one more for IPoIB's broadcast group
		Faults:    fabric.Faults{Loss: c.Loss, Duplicate: c.Duplicate, Reorder: c.Reorder},
	}
}

// String writes the options that are not at their defaults, as in a URL.
func (c SubnetConfig) String() string {
	var opts []string
	c = c.withDefaults()
	add := func(isSet bool, key string, val any) {
		if isSet {
			opts = append(opts, fmt.Sprintf("%s=%v", key, val))
		}
	}
	add(c.Flavor == fabric.RoCE, "flavor", "roce")
	add(c.MTU != defaultMTU, "mtu", int(c.MTU))
	add(c.Switches != defaultSwitches, "switches", c.Switches)
	add(c.Latency != 0, "latency", c.Latency)
	add(c.Loss != 0, "loss", c.Loss)
	add(c.Duplicate != 0, "dup", c.Duplicate)
	add(c.Reorder != 0, "reorder", c.Reorder)
	add(c.Seed != 0, "seed", c.Seed)
	add(c.NoSendOnly, "sendonly", "off")
	add(c.MLIDs != defaultMLIDs, "mlids", c.MLIDs)
	if opts == nil {
		return "none"
	}
	return strings.Join(opts, "&")
}

// endpointOptions are the options of an endpoint.
var endpointOptions = urlopt.Set[Config]{
	"groups": func(c *Config, val string) error { return urlopt.Number(&c.Groups, val, 1, 1<<16) },
	"size":   func(c *Config, val string) error { return urlopt.Number(&c.PacketSize, val, 64, 4096) },
	"rq":     func(c *Config, val string) error { return urlopt.Number(&c.ReceiveQueue, val, 16, 32767) },
	"sq":     func(c *Config, val string) error { return urlopt.Number(&c.SendQueue, val, 16, 32767) },
	"peers":  func(c *Config, val string) error { return urlopt.Number(&c.Peers, val, 1, 1<<16-1) },
}

// subnetOptions are the options of the subnet. They set explicit.
var subnetOptions = urlopt.Set[Config]{
	"flavor": subnet(func(c *SubnetConfig, val string) error {
		switch val {
		case "ib":
			c.Flavor = fabric.InfiniBand
		case "roce":
			c.Flavor = fabric.RoCE
		default:
			return errors.New("must be ib or roce")
		}
		return nil
	}),
	"mtu": subnet(func(c *SubnetConfig, val string) error {
		n := 0
		_ = urlopt.Number(&n, val, 256, 4096)
		if c.MTU = rdma.MTU(n); c.MTU.Code() == 0 {
			return errors.New("must be 256, 512, 1024, 2048 or 4096 bytes")
		}
		return nil
	}),
	"switches": subnet(func(c *SubnetConfig, val string) error { return urlopt.Number(&c.Switches, val, 1, 64) }),
	"latency": subnet(func(c *SubnetConfig, val string) error {
		d, err := time.ParseDuration(val)
		if err != nil || d < 0 || d > time.Second {
			return errors.New("must be a time with its unit of at most 1s, such as 5us")
		}
		c.Latency = d
		return nil
	}),
	"loss":    subnet(func(c *SubnetConfig, val string) error { return share(&c.Loss, val) }),
	"dup":     subnet(func(c *SubnetConfig, val string) error { return share(&c.Duplicate, val) }),
	"reorder": subnet(func(c *SubnetConfig, val string) error { return share(&c.Reorder, val) }),
	"seed": subnet(func(c *SubnetConfig, val string) (err error) {
		if c.Seed, err = strconv.ParseUint(val, 10, 64); err != nil {
			return errors.New("must be a number from 0 to 2^64-1")
		}
		return nil
	}),
	"sendonly": subnet(func(c *SubnetConfig, val string) error {
		switch val {
		case "on", "yes":
			c.NoSendOnly = false
		case "off", "no":
			c.NoSendOnly = true
		default:
			return errors.New("must be on or off")
		}
		return nil
	}),
	"mlids": subnet(func(c *SubnetConfig, val string) error {
		return urlopt.Number(&c.MLIDs, val, 1, defaultMLIDs)
	}),
}

func subnet(set func(*SubnetConfig, string) error) func(*Config, string) error {
	return func(c *Config, val string) error {
		c.explicit = true
		return set(&c.Subnet, val)
	}
}

func share(dst *float64, val string) error {
	x, err := strconv.ParseFloat(val, 64)
	if err != nil || math.IsNaN(x) || x < 0 || x > 1 {
		return errors.New("must be a probability from 0 to 1")
	}
	*dst = x
	return nil
}

// Parse reads a configuration from a URL:
//
//	sim://name?flavor=ib|roce&loss=0.01&dup=0&reorder=0&seed=1
//
// The host is the name of the subnet within this process; it may be omitted. Options of the endpoint, and their
// defaults, are
//
//	groups=16  size=MTU  rq=4096  sq=512  peers=4096
//
// and those of the subnet. An endpoint on an existing subnet has none of these options, or exactly those of the first
// endpoint:
//
//	flavor=ib  mtu=4096  switches=1  latency=0  loss=0  dup=0  reorder=0  seed=0
//	sendonly=on  mlids=16382
//
// With sendonly=off the subnet manager refuses send-only members; with mlids=N it has N multicast LIDs for groups; both
// for InfiniBand only.
func Parse(u *url.URL) (Config, error) {
	all := maps.Clone(endpointOptions)
	maps.Copy(all, subnetOptions)
	return parse(u, all)
}

// ParseSubnet is Parse for a URL that names only a subnet, without options of an endpoint.
func ParseSubnet(u *url.URL) (Config, error) { return parse(u, subnetOptions) }

func parse(u *url.URL, options urlopt.Set[Config]) (Config, error) {
	c := Config{Name: u.Hostname()}
	if u.Scheme != "sim" {
		return c, fmt.Errorf("sim: the scheme of %q is not sim", urlopt.Text(u))
	}
	if u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Port() != "" || u.Path != "" && u.Path != "/" {
		return c, fmt.Errorf("sim: %q: %w", urlopt.Text(u), errName)
	}
	query, err := urlopt.Query(u)
	if err != nil {
		return c, err
	}
	if err := options.Read(&c, u.Scheme, query); err != nil {
		return c, err
	}
	switch {
	case c.Subnet.Flavor == fabric.RoCE && (c.Subnet.NoSendOnly || c.Subnet.MLIDs > 0):
		return c, errors.New("sim: sendonly and mlids are options of a subnet manager, which RoCE does not have: leave them out, or use flavor=ib")
	case c.Subnet.MTU != 0 && c.PacketSize > int(c.Subnet.MTU):
		return c, fmt.Errorf("sim: size=%d is more than mtu=%d", c.PacketSize, c.Subnet.MTU)
	}
	return c, nil
}
