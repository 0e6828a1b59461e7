// Package doctor checks whether a host is suitable for Fanfare, from its /sys and /proc. Each
// finding is one sentence, with a command that fixes it. Self-tests, which need sockets or devices,
// are part of the command, in package cmd/fanfare/internal/cli.
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
	Info       // useful to know
	Warn       // works, but slower than possible or only in part
	Fail       // does not work
)

func (l Level) String() string { return [...]string{"ok", "info", "warn", "fail"}[min(l, Fail)] }

func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

type Finding struct {
	Area  string `json:"area"` // "rdma", "memory", "network", ...
	Level Level  `json:"level"`
	Text  string `json:"text"`          // one sentence
	Fix   string `json:"fix,omitempty"` // a shell command, possibly several joined by &&
}

// Facts are the input of Check. Root is the file system from "/"; its /sys, /proc, /dev/infiniband
// and library directories are read. A recording of another host also works.
type Facts struct {
	Root fs.FS
	// Links are the network interfaces as this process sees them: /sys may show those of another network namespace.
	Links []net.Interface
	Addrs map[string][]netip.Addr
	// Default is the interface of udp:// without iface=, DefaultErr the error if there is none. If neither is set, it is
	// unknown.
	Default    Link
	DefaultErr error
	// Filters lists the tables of nftables, such as "inet filter"; its error is the reason why they
	// are unknown. Nil in recordings.
	Filters      func() ([]string, error)
	MemlockBytes int64 // RLIMIT_MEMLOCK; negative without a limit
	// ReceiveBytes and SendBytes are the socket buffer sizes that transport/udp requests.
	ReceiveBytes, SendBytes int

	Buses         []Bus          // of the processes that this user may inspect; nil: none was asked
	Silent        []string       // sockets of processes that did not answer, with the error
	Shared        []SharedMemory // the directories for fabrics of shm://; none on systems without shm://
	EndpointBytes int64          // what an endpoint of shm: // maximum memory of an endpoint of shm://
	UID           int            // the user of this process
	Verbs         rdma.Provider  // rdma-core, or nil
	VerbsErr      error
}

type Link struct {
	Name     string
	Addr     netip.Addr
	Loopback bool   // no other interface is usable, or the route leads here
	Routed   bool   // the route to multicast groups uses this interface
	RouteTo  string // interface of that route, even if unusable for multicast; empty: no route
}

func Check(f *Facts) []Finding {
	c := &check{Facts: f}
	c.each(c.rdma, c.rocePort, c.memlock, c.libraries, c.network, c.environment, c.buffers, c.shared, c.security)
	return c.findings
}

type check struct {
	*Facts
	findings []Finding
	unseen   []string // paths that could not be read
	blind    bool     // the current check needed one of them
}

// each calls the checks. A check that needs an unreadable path adds no further findings: the path is the finding.
func (c *check) each(checks ...func()) {
	for _, f := range checks {
		c.blind = false
		f()
	}
}

func (c *check) add(area string, level Level, fix, text string, args ...any) {
	if !c.blind {
		c.findings = append(c.findings, Finding{Area: area, Level: level, Text: fmt.Sprintf(text, args...), Fix: fix})
	}
}

// readable reports whether path was read. If the error leaves open whether path exists, such as a missing
// permission or no free file descriptor, it adds a finding. An error of the read itself is the kernel's answer.
func (c *check) readable(path string, err error) (there bool) {
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
		c.add("host", Info, fix, "/%s cannot be read: %v", path, err)
	}
	c.blind = true
	return false
}

func (c *check) read(path string) (string, bool) {
	b, err := fs.ReadFile(c.Root, path)
	return strings.TrimRight(string(b), "\n"), c.readable(path, err)
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
	return c.readable(path, err)
}

func (c *check) list(dir string) (names []string) {
	entries, err := fs.ReadDir(c.Root, dir)
	c.readable(dir, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// ThisHost collects the facts of this host. The caller sets the buffer sizes and the interface of udp://.
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
