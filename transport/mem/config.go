package mem

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/urlopt"
)

// DefaultPacketSize in bytes is not bounded by a frame: it is large enough that the cost of a packet is small compared
// with its messages, and small enough that a window of 8 MiB holds a thousand packets with one message each.
const DefaultPacketSize = 8192

// Limits of the in-process fabric.
const (
	// slotBytes is the size of one queued train: that of a UDP GSO train, so that tests over mem see trains as large as
	// over UDP.
	slotBytes = 64 << 10
	// maxTrain bounds the packets of one Outbound.
	maxTrain = 1024
	// maxPacket is the largest UDP payload over IPv4: 65535 bytes less 28 of headers.
	maxPacket = 65507
	maxGroups = 1 << 16
	// batch is how many trains a Poll returns at most.
	batch = 256
)

// Config describes an endpoint. The zero value is an endpoint on the network named "" of this process.
type Config struct {
	// Network to attach to. Nil means the network of this process with the name Name; it exists from its first to its last
	// endpoint.
	Network *Network
	Name    string
	// Groups in the range; default 16, at most 65536.
	Groups int
	// PacketSize in bytes is the size to fill packets to; default DefaultPacketSize.
	PacketSize int
	// MaxPacket in bytes; default and limit 65507.
	MaxPacket int
	// QueueTrains is how many trains wait for a Poll; more are dropped and counted. A packet sent alone is a train.
	// Default 1024; a train takes up to 64 KiB of memory, allocated when the queue is first that long.
	QueueTrains int
	// LendMax is how many trains may be kept past the next Poll; default 256.
	LendMax int
	// Peers is how many peers may be retained; default 4096, at most 65535.
	Peers int
}

// withDefaults returns the configuration with defaults filled in, or an error.
func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name     string
		val      *int
		def, max int
	}{
		{"groups", &c.Groups, 16, maxGroups},
		{"size", &c.PacketSize, DefaultPacketSize, maxPacket},
		{"maxpacket", &c.MaxPacket, maxPacket, maxPacket},
		{"queue", &c.QueueTrains, 1024, 1 << 16},
		{"lend", &c.LendMax, 256, 1 << 16},
		{"peers", &c.Peers, peers.DefaultLimit, peers.MaxLimit},
	} {
		if *f.val == 0 {
			*f.val = f.def
		}
		if *f.val < 1 || *f.val > f.max {
			return c, fmt.Errorf("mem: %s is %d; it must be from 1 to %d", f.name, *f.val, f.max)
		}
	}
	c.PacketSize = min(c.PacketSize, c.MaxPacket)
	return c, nil
}

// Parse reads a configuration from mem://name?groups=16&size=8192&queue=1024.
func Parse(u *url.URL) (Config, error) {
	c := Config{Name: u.Host}
	if u.Scheme != "mem" {
		return c, fmt.Errorf("mem: the scheme of %q is not mem", u.Redacted())
	}
	if u.Path != "" && u.Path != "/" {
		return c, fmt.Errorf("mem: %q has a path; the name of the network goes before it: mem://name", u.Redacted())
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, fmt.Errorf("mem: query of %q: %w", u.Redacted(), err)
	}
	for key, vals := range query {
		var dst *int
		switch key {
		case "groups":
			dst = &c.Groups
		case "size":
			dst = &c.PacketSize
		case "maxpacket":
			dst = &c.MaxPacket
		case "queue":
			dst = &c.QueueTrains
		case "lend":
			dst = &c.LendMax
		case "peers":
			dst = &c.Peers
		default:
			return c, &urlopt.UnknownError{Scheme: "mem", Option: key, Known: []string{"groups", "size", "maxpacket", "queue", "lend", "peers"}}
		}
		n, err := strconv.Atoi(vals[len(vals)-1])
		if err != nil || n < 1 {
			return c, fmt.Errorf("mem: option %s=%s is not a number above 0", key, vals[len(vals)-1])
		}
		*dst = n
	}
	_, err = c.withDefaults()
	return c, err
}
