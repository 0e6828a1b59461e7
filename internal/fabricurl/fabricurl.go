// Package fabricurl opens what the URL of a fabric names: as a transport, which a
// bus runs on, or as the RDMA devices beneath it.
//
//	udp://239.20.0.0/16     UDP multicast
//	mem://name              within this process
//	shm://name              between processes of this host, over shared memory (Linux)
//	sim://name              a simulated subnet of this process
//	roce://eth0             RoCEv2 in user space, over sockets (Linux)
//	rdma://mlx5_0           rdma-core, in programs built with tag rdma
//
// What stands in a URL is read by the package of the transport, but for the options of a
// bus, such as map= and keys=: Fabric.Mapping, Fabric.Keys.
package fabricurl

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/rocenet"
	"github.com/fanfaremq/fanfare/transport/shm"
	"github.com/fanfaremq/fanfare/transport/simnet"
	"github.com/fanfaremq/fanfare/transport/udp"
	"github.com/fanfaremq/fanfare/transport/verbsnet"
)

// Error is a URL that cannot be used as it stands. Errors that are none say what the host lacks.
type Error struct {
	URL string
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// scheme is how the fabrics of a URL scheme are opened. What this system or build
// lacks the functions say. In an *Error they leave the URL out.
type scheme struct {
	transport func(*url.URL, *slog.Logger) (transport.Transport, error)
	host      func(*url.URL) (*Host, error) // nil: it has no RDMA devices
}

var schemes = map[string]scheme{
	"mem": {transport: opener(mem.Parse, nil, mem.Open)},
	"udp": {transport: opener(udp.Parse, nil, udp.Open)},
	"shm": {transport: opener(shm.Parse, nil, shm.Open)},
	"sim": {
		transport: opener(simnet.Parse, func(c *simnet.Config, l *slog.Logger) { c.Logger = l }, blameURL(simnet.Open)),
		host:      openSim,
	},
	"roce": {
		transport: opener(rocenet.Parse, func(c *rocenet.Config, l *slog.Logger) { c.Logger = l }, blameURL(rocenet.Open)),
		host:      openRoCE,
	},
	"rdma": {
		transport: opener(verbsnet.Parse, func(c *verbsnet.Config, l *slog.Logger) { c.Logger = l }, verbsnet.Open),
		host:      openVerbs,
	},
}

// opener parses a URL and opens the transport that it describes. setLogger is nil for transports that log nothing.
func opener[C any, T transport.Transport](parse func(*url.URL) (C, error), setLogger func(*C, *slog.Logger),
	open func(C) (T, error)) func(*url.URL, *slog.Logger) (transport.Transport, error) {
	return func(u *url.URL, l *slog.Logger) (transport.Transport, error) {
		c, err := parse(u)
		if err != nil {
			return nil, &Error{Err: err}
		}
		if setLogger != nil {
			setLogger(&c, l)
		}
		t, err := open(c)
		if err != nil {
			return nil, err // and no nil pointer in an interface
		}
		return t, nil
	}
}

// blameURL is open for transports that nearly always fail by what the URL says.
func blameURL[C, T any](open func(C) (T, error)) func(C) (T, error) {
	return func(c C) (T, error) {
		t, err := open(c)
		if err != nil {
			err = &Error{Err: err}
		}
		return t, err
	}
}

// Fabric is a parsed URL, of a scheme that is known.
type Fabric struct {
	url    *url.URL
	scheme scheme
	own    *url.URL // the transport's part of url
	// Mapping is the option map= of the URL, which says how topics map to groups
	// (package groupmap); empty where it is not given.
	Mapping string
	// Keys is the option keys= of the URL, a file of keys (package transport/sealed/keyring); empty where it is not given.
	Keys string
	// Sign and Trust are the options sign= and trust= of the URL, files of package
	// transport/signed; empty where they are not given.
	Sign, Trust string
	// Pad is the option pad= of the URL, what packets are padded to a multiple of; empty where it is not given.
	Pad string
	// Clock is the option clock= of the URL, what the host's clock agrees with; empty where it is not given.
	Clock string
}

// Parse reads a URL as far as its scheme. Errors are an *Error.
func Parse(rawURL string) (*Fabric, error) {
	f, err := parse(rawURL)
	if !strings.Contains(rawURL, "://") && (err != nil || f.scheme.transport == nil) {
		return nil, &Error{rawURL, errors.New("it is no URL: " + bareHint(rawURL))}
	}
	if err != nil {
		return nil, err
	}
	if f.scheme.transport == nil {
		return nil, f.error(fmt.Errorf("no transport is called %q: use udp://, shm://, rdma://, roce://, mem:// or sim://", f.url.Scheme))
	}
	if f.url.Query().Has("loops") {
		return nil, f.error(errors.New("a bus has one loop, and loops= is no option any more: open several buses, one for each processor that is to take a share of the topics"))
	}
	f.own = f.url
	for _, o := range f.options() {
		if f.own, *o.value, err = takeOption(f.own, o.key, o.empty); err != nil {
			return nil, f.error(err)
		}
	}
	return f, nil
}

// Local reports whether the fabric is within this process, where no other one can reach it.
func (f *Fabric) Local() bool { return f.url.Scheme == "mem" || f.url.Scheme == "sim" }

// Closed reports whether the system keeps others out: but for processes of this user, or of
// the group that the URL names.
func (f *Fabric) Closed() bool { return f.Local() || f.url.Scheme == "shm" }

func parse(rawURL string) (*Fabric, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, &Error{rawURL, err}
	}
	return &Fabric{url: u, scheme: schemes[u.Scheme]}, nil
}

// bareHint says what to write in place of a name or an address alone, or of a scheme without its colon.
func bareHint(text string) string {
	if name, rest, ok := strings.Cut(text, "/"); ok && schemes[name].transport != nil { // no interface has a slash in its name
		return "did you mean " + name + "://" + strings.TrimPrefix(rest, "/") + "?"
	}
	if text == "shm" || text == "mem" || text == "sim" { // their hosts are names that processes agree on
		return "write " + text + "://NAME, the same NAME for all processes that communicate"
	}
	if text != "" && strings.Trim(text, "0123456789.:/") == "" {
		return "write udp://" + text + " for a multicast group or a range of them"
	}
	return "write udp://?iface=" + cmp.Or(text, "eth0") + " for UDP multicast on that interface, or roce://" + cmp.Or(text, "eth0") + " or rdma://" + cmp.Or(text, "mlx5_0") + " for RDMA"
}

// error is the URL's fault.
func (f *Fabric) error(err error) error { return &Error{f.String(), err} }

// named is err with the URL in it, if it is the URL's fault.
func (f *Fabric) named(err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.URL = f.String()
	}
	return err
}

// String is the URL as users write it, without a password: of one that names nothing
// but the scheme and options net/url leaves the slashes out.
func (f *Fabric) String() string {
	u := f.url
	if u.Host == "" && u.Path == "" && u.Opaque == "" && u.User == nil {
		return strings.Replace(u.Redacted(), ":", "://", 1)
	}
	return u.Redacted()
}

// Open opens the fabric as a transport.
func (f *Fabric) Open(log *slog.Logger) (transport.Transport, error) {
	t, err := f.scheme.transport(f.own, log)
	var unknown interface{ AlsoKnown(option string) }
	if errors.As(err, &unknown) {
		for _, o := range f.options() {
			unknown.AlsoKnown(o.key)
		}
	}
	return t, f.named(err)
}

// rdmaSchemes are the URL schemes that have RDMA devices, in alphabetical order.
func rdmaSchemes() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		if schemes[name].host != nil {
			list = append(list, name)
		}
	}
	return list
}

// OpenHost opens the RDMA devices that a URL names. A device is named by its own name, by its network interface or by
// an address of that; without a name it is the first one with an active port. Of sim:// the name is the subnet's.
func OpenHost(rawURL string) (*Host, error) {
	f, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	u := f.url
	if f.scheme.host == nil {
		return nil, f.error(fmt.Errorf("no RDMA provider is called %q: use %s://", u.Scheme, strings.Join(rdmaSchemes(), "://, ")))
	}
	if u.User != nil || u.Port() != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" || u.Opaque != "" {
		return nil, f.error(fmt.Errorf("it must be %s://DEVICE, with options after a ?", u.Scheme))
	}
	h, err := f.scheme.host(u)
	return h, f.named(err)
}
