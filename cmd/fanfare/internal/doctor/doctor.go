// Package doctor finds out whether a host is fit for Fanfare, from what its kernel shows in /sys and /proc. Each
// finding is one sentence, with a command that mends it. What takes sockets or devices to find out (self-tests) is
// with the command, package cmd/fanfare/internal/cli.
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs"
)

type Level uint8

const (
	OK   Level = iota
	Info       // neither good nor bad, but good to know
	Warn       // works, but not as it could, or not everywhere
	Fail       // does not work
)

func (l Level) String() string { return [...]string{"ok", "info", "warn", "fail"}[min(l, Fail)] }

func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

type Finding struct {
	Area  string `json:"area"` // "rdma", "memory", "network", ...
	Level Level  `json:"level"`
	Text  string `json:"text"`          // one sentence
	Fix   string `json:"fix,omitempty"` // a command, or several with && between
}

// Facts are what findings are made from. Root is the file system from "/", of which /sys, /proc, /dev/infiniband and
// the library folders are read; a recording of another host's will do.
type Facts struct {
	Root fs.FS
	// Links are the network interfaces as this process sees them: /sys may show those of another network namespace.
	Links []net.Interface
	Addrs map[string][]netip.Addr
	// Default is what udp:// without iface= takes, DefaultErr why it takes nothing; neither: it is not known.
	Default    Link
	DefaultErr error
	// Filters lists the tables of nftables, such as "inet filter"; its error says why that is not known. Nil: a
	// recording does not say.
	Filters      func() ([]string, error)
	MemlockBytes int64 // RLIMIT_MEMLOCK; negative without a limit
	// ReceiveBytes and SendBytes are the socket buffers that transport/udp asks for.
	ReceiveBytes, SendBytes int

	Buses         []Bus          // of this host's processes, as far as this user may ask them; nil: none was asked
	Silent        []string       // processes that did not answer: where they were asked, and why not
	Shared        []SharedMemory // the directories for fabrics of shm://; none where there is no shm://
	EndpointBytes int64          // what an endpoint of shm:// uses at most
	UID           int            // the user that this process is
	Verbs         rdma.Provider  // rdma-core, or nil with the reason why it is not there
	VerbsErr      error
}

type Link struct {
	Name     string
	Addr     netip.Addr
	Loopback bool   // there is no other, or Routed
	Routed   bool   // the route to multicast groups leads there
	RouteTo  string // where it leads, also if that is none for multicast; empty: there is none
}

func Check(f *Facts) []Finding {
	c := &check{Facts: f}
	c.each(c.rdma, c.rocePort, c.memlock, c.libraries, c.network, c.environment, c.buffers, c.shared, c.security)
	return c.findings
}

type check struct {
	*Facts
	findings []Finding
	unseen   []string // paths that could not be looked at
	blind    bool     // one of them was needed for what is looked at
}

// each calls looks. One that needs a path that cannot be looked at adds no findings from there on: the path is one.
func (c *check) each(looks ...func()) {
	for _, look := range looks {
		c.blind = false
		look()
	}
}

func (c *check) add(area string, level Level, fix, text string, args ...any) {
	if !c.blind {
		c.findings = append(c.findings, Finding{Area: area, Level: level, Text: fmt.Sprintf(text, args...), Fix: fix})
	}
}

// saw takes in how a look at path ended. An error by which it is not known whether the path is there, such as a missing
// permission or no free file descriptor, is a finding. An error of a read is the kernel's answer.
func (c *check) saw(path string, err error) (there bool) {
	var p *fs.PathError
	isPath := errors.As(err, &p)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || isPath && p.Op == "read" {
		return err == nil
	}
	if isPath {
		err = p.Err
	}
	fix := ""
	if errors.Is(err, fs.ErrPermission) {
		fix = "sudo fanfare doctor"
	}
	if c.blind = false; !slices.Contains(c.unseen, path) {
		c.unseen = append(c.unseen, path)
		c.add("host", Info, fix, "/%s cannot be looked at: %v", path, err)
	}
	c.blind = true
	return false
}

func (c *check) read(path string) (string, bool) {
	b, err := fs.ReadFile(c.Root, path)
	return strings.TrimRight(string(b), "\n"), c.saw(path, err)
}

func (c *check) number(path string) (int64, bool) {
	text, ok := c.read(path)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
	return n, err == nil
}

func (c *check) exists(path string) bool {
	_, err := fs.Stat(c.Root, path)
	return c.saw(path, err)
}

func (c *check) list(dir string) (names []string) {
	entries, err := fs.ReadDir(c.Root, dir)
	c.saw(dir, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// ThisHost gathers the facts of this host. The buffers that are asked for, and
// the interface that udp:// takes, are for the caller to fill in.
func ThisHost() (*Facts, error) {
	f := &Facts{Root: os.DirFS("/"), Addrs: map[string][]netip.Addr{}, MemlockBytes: memlockLimit(), Filters: nftables}
	links, err := sys.Interfaces()
	if err != nil {
		return nil, err
	}
	f.Links = links
	for _, l := range links {
		if f.Addrs[l.Name], err = sys.InterfaceAddrs(&l); err != nil {
			return nil, err
		}
	}
	f.Verbs, f.VerbsErr = verbs.Open()
	return f, nil
}
