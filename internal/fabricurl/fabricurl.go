// Package fabricurl opens the URL of a fabric: as the transport of a bus, or as RDMA devices.
//
//	udp://239.20.0.0/16     UDP multicast
//	mem://name              within this process
//	shm://name              between processes of this host, over shared memory (Linux)
//	sim://name              a simulated subnet of this process
//	roce://eth0             RoCEv2 in user space, over sockets (Linux)
//	rdma://mlx5_0           rdma-core, in programs built with tag rdma
//
// The package of the transport parses the URL, except options of the bus such as map= and keys=: Fabric.Mapping,
// Fabric.Keys.
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

// Error is the error of an invalid URL. Other errors mean that the host cannot open a valid one.
type Error struct {
	URL string
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// scheme has the functions that open the fabrics of a URL scheme. They return an error if this system or build does not
// support it. In an *Error they omit the URL.
type scheme struct {
	transport func(*url.URL, *slog.Logger) (transport.Transport, error)
	host      func(*url.URL) (*Host, error) // nil: the scheme has no RDMA devices
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

// opener returns a function that parses a URL and opens its transport. setLogger is nil for transports that log
// nothing.
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
			return nil, err // not t, which would be a nil pointer in an interface
		}
		return t, nil
	}
}

// blameURL wraps open for a transport that nearly always fails because of the URL: its errors are an *Error.
func blameURL[C, T any](open func(C) (T, error)) func(C) (T, error) {
	return func(c C) (T, error) {
		t, err := open(c)
		if err != nil {
			err = &Error{Err: err}
		}
		return t, err
	}
}

// Fabric is a parsed URL with a known scheme.
type Fabric struct {
	url    *url.URL
	scheme scheme
	own    *url.URL // the transport's part of url
	// Mapping is the option map= of the URL, which maps topics to groups (package groupmap); empty if not given.
	Mapping string
	// Keys is the option keys= of the URL, a file of keys (package transport/sealed/keyring); empty if not given.
	Keys string
	// Sign and Trust are the options sign= and trust= of the URL, files of package transport/signed; empty if not given.
	Sign, Trust string
	// Pad is the option pad= of the URL: packets are padded to a multiple of it in bytes; empty if not given.
	Pad string
	// Clock is the option clock= of the URL, the name of the clocks that agree with the host's; empty if not given.
	Clock string
}

// Parse parses the scheme and the options of the bus in a URL. Errors are an *Error.
func Parse(rawURL string) (*Fabric, error) {
	f, err := parse(rawURL)
	if !strings.Contains(rawURL, "://") && (err != nil || f.scheme.transport == nil) {
		return nil, &Error{rawURL, errors.New("it is not a URL: " + bareHint(rawURL))}
	}
	if err != nil {
		return nil, err
	}
	if f.scheme.transport == nil {
		return nil, f.error(fmt.Errorf("there is no transport %q: use udp://, shm://, rdma://, roce://, mem:// or sim://", f.url.Scheme))
	}
	if f.url.Query().Has("loops") {
		return nil, f.error(errors.New("the option loops= was removed, because a bus has one loop: open several buses, one for each processor, and divide the topics between them"))
	}
	f.own = f.url
	for _, o := range f.options() {
		if f.own, *o.value, err = takeOption(f.own, o.key, o.empty); err != nil {
			return nil, f.error(err)
		}
	}
	return f, nil
}

// Local reports whether the fabric is inside this process, so that no other process can reach it.
func (f *Fabric) Local() bool { return f.url.Scheme == "mem" || f.url.Scheme == "sim" }

// Closed reports whether the system permits access only to processes of this user, or of the group in the URL.
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

// bareHint returns advice for a name or an address without a scheme, or a scheme without its colon.
func bareHint(text string) string {
	if name, rest, ok := strings.Cut(text, "/"); ok && schemes[name].transport != nil { // interface names have no slash
		return "did you mean " + name + "://" + strings.TrimPrefix(rest, "/") + "?"
	}
	if text == "shm" || text == "mem" || text == "sim" { // their hosts are names that the processes choose
		return "write " + text + "://NAME, the same NAME for all processes that communicate"
	}
	if text != "" && strings.Trim(text, "0123456789.:/") == "" {
		return "write udp://" + text + " for a multicast group or a range of them"
	}
	return "write udp://?iface=" + cmp.Or(text, "eth0") + " for UDP multicast on that interface, or roce://" + cmp.Or(text, "eth0") + " or rdma://" + cmp.Or(text, "mlx5_0") + " for RDMA"
}

// error returns an *Error for the URL.
func (f *Fabric) error(err error) error { return &Error{f.String(), err} }

// named returns err, with the URL if it is an *Error.
func (f *Fabric) named(err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.URL = f.String()
	}
	return err
}

// String returns the URL as users write it, without a password. net/url omits the slashes of a URL with only scheme and
// options.
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

// rdmaSchemes returns the URL schemes with RDMA devices, in alphabetical order.
func rdmaSchemes() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		if schemes[name].host != nil {
			list = append(list, name)
		}
	}
	return list
}

// OpenHost opens the RDMA devices of a URL. The host of the URL is a device's name, its network interface or an address
// of that; without it the first device with an active port is used. For sim:// it is the name of the subnet. Invalid
// URLs are an *Error.
func OpenHost(rawURL string) (*Host, error) {
	f, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	u := f.url
	if f.scheme.host == nil {
		return nil, f.error(fmt.Errorf("there is no RDMA provider %q: use %s://", u.Scheme, strings.Join(rdmaSchemes(), "://, ")))
	}
	if u.User != nil || u.Port() != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" || u.Opaque != "" {
		return nil, f.error(fmt.Errorf("it must be %s://DEVICE, with options after a ?", u.Scheme))
	}
	h, err := f.scheme.host(u)
	return h, f.named(err)
}
