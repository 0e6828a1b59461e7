package shm

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/urlopt"
)

// DefaultPacketSize in bytes: there are no frames here, and the cost of a packet is small compared with its messages.
// Eight packets fill a train; a window of 8 MiB holds a thousand.
const DefaultPacketSize = 8192

// DefaultDir is the directory for the files of fabrics: a file system in memory (tmpfs(5)).
const DefaultDir = "/dev/shm"

// Limits of the fabric.
const (
	maxTrain  = 1024 // packets in one Outbound
	maxPacket = 65507
	maxGroups = 1 << 16
	batch     = 64 // maximum of trains that a Poll returns
	// maxQueue is how many trains a lane holds in addition to lent ones and to as many positions that were skipped since.
	// If more positions are skipped in one lap, trains are dropped (peer.ringFull).
	maxQueue = laneSlots - 2*(maxLend+batch)
	maxLend  = 256
)

// Config describes an endpoint.
type Config struct {
	// Name of the fabric: letters, digits, dots, dashes and underscores, 64 at most.
	Name string
	// Group is a Unix group, by name or number: its members share the fabric. Empty: only processes of this user share it.
	Group string
	// Dir is the directory for the files; default DefaultDir.
	Dir string
	// Groups in the range; default 16, at most 65536.
	Groups int
	// PacketSize in bytes is the size to fill packets to; default DefaultPacketSize, at most 65507.
	PacketSize int
	// QueueTrains is how many trains of each other endpoint can wait for a Poll; more are dropped and counted. Default
	// 1024, at most 1408.
	QueueTrains int
	// LendMax is how many trains may be kept past the next Poll; default and limit 256.
	LendMax int
	// Peers is how many peers may be retained; default 4096, at most 65535.
	Peers int

	distrust bool // for tests: treat all other endpoints as another user's
}

// withDefaults returns the configuration with defaults filled in, or an error.
func (c Config) withDefaults() (Config, error) {
	if err := checkName(c.Name); err != nil {
		return c, err
	}
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	for _, f := range []struct {
		name     string
		val      *int
		def, max int
	}{
		{"groups", &c.Groups, 16, maxGroups},
		{"size", &c.PacketSize, DefaultPacketSize, maxPacket},
		{"queue", &c.QueueTrains, 1024, maxQueue},
		{"lend", &c.LendMax, maxLend, maxLend},
		{"peers", &c.Peers, peers.DefaultLimit, peers.MaxLimit},
	} {
		if *f.val == 0 {
			*f.val = f.def
		}
		if *f.val < 1 || *f.val > f.max {
			return c, fmt.Errorf("shm: %s is %d; it must be from 1 to %d", f.name, *f.val, f.max)
		}
	}
	return c, nil
}

// checkName refuses names that are not valid file names.
func checkName(name string) error {
	const known = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	switch {
	case name == "":
		return errors.New("shm: the fabric has no name: write shm://NAME, the same for all processes of the fabric")
	case len(name) > 64 || name[0] == '.' || strings.Trim(name, known) != "":
		return fmt.Errorf("shm: %q is not a valid name of a fabric: use up to 64 letters, digits, dots, dashes and underscores, not beginning with a dot", name)
	}
	return nil
}

var options = urlopt.Set[Config]{
	"group":  func(c *Config, val string) error { return text(&c.Group, val) },
	"dir":    func(c *Config, val string) error { return text(&c.Dir, val) },
	"groups": func(c *Config, val string) error { return urlopt.Number(&c.Groups, val, 1, maxGroups) },
	"size":   func(c *Config, val string) error { return urlopt.Number(&c.PacketSize, val, 1, maxPacket) },
	"queue":  func(c *Config, val string) error { return urlopt.Number(&c.QueueTrains, val, 1, maxQueue) },
	"lend":   func(c *Config, val string) error { return urlopt.Number(&c.LendMax, val, 1, maxLend) },
	"peers":  func(c *Config, val string) error { return urlopt.Number(&c.Peers, val, 1, peers.MaxLimit) },
}

func text(dst *string, val string) error {
	if val == "" {
		return errors.New("is empty: leave it out")
	}
	*dst = val
	return nil
}

// Parse reads a configuration from shm://name?group=trading&size=8192.
func Parse(u *url.URL) (Config, error) {
	c := Config{Name: u.Host}
	switch {
	case u.Scheme != "shm":
		return c, fmt.Errorf("shm: the scheme of %q is not shm", urlopt.Text(u))
	case u.Path != "" && u.Path != "/" || u.User != nil || u.Fragment != "" || u.Opaque != "":
		return c, fmt.Errorf("shm: %q must be shm://NAME, with options after a ?", urlopt.Text(u))
	}
	query, err := urlopt.Query(u)
	if err != nil {
		return c, err
	}
	if err := options.Read(&c, "shm", query); err != nil {
		return c, err
	}
	_, err = c.withDefaults()
	return c, err
}
