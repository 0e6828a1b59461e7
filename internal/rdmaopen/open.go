// Package rdmaopen turns a URL into a way to RDMA devices: the scheme names the
// provider, the host a device.
//
//	sim://                  two hosts on a simulated subnet of this process
//	roce://eth0             RoCEv2 in user space, over sockets (Linux)
//	rdma://mlx5_0           rdma-core, in programs built with tag rdma
//
// A device is named by its own name, by its network interface or by an address
// of that; without a name it is the first one with an active port. Of sim:// the
// name is the subnet's.
package rdmaopen

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/rdma"
)

// Host is a way to the RDMA devices of a host.
type Host struct {
	rdma.Provider
	// Device that the URL named, and Port of it, from 1.
	Device string
	Port   uint8
	// Addr is the port's address, for rdma.ID.Bind.
	Addr rdma.Addr
	// Peer is another host of the same subnet; nil unless it is simulated.
	Peer *Host

	close func()
}

// Close ends what Open began. Objects made from the provider come first. It is
// idempotent.
func (h *Host) Close() {
	if h.close != nil {
		h.close()
		h.close = nil
	}
}

// URLError is a URL that cannot be used as it stands.
type URLError struct {
	URL string
	Err error
}

func (e *URLError) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }
func (e *URLError) Unwrap() error { return e.Err }

// openers open the provider of a scheme. What this system or build lacks they
// say. In a *URLError they leave the URL out.
var openers = map[string]func(*url.URL) (*Host, error){
	"rdma": openVerbs,
	"roce": openRoCE,
	"sim":  openSim,
}

// Schemes are the URL schemes of all providers, in alphabetical order.
func Schemes() []string {
	var list []string
	for s := range openers {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// Open opens what a URL names. A *URLError is the URL's fault; other errors say
// what the host lacks.
func Open(rawURL string) (*Host, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, &URLError{rawURL, err}
	}
	open := openers[u.Scheme]
	if open == nil {
		return nil, &URLError{rawURL, fmt.Errorf("no RDMA provider is called %q: use %s://", u.Scheme, strings.Join(Schemes(), "://, "))}
	}
	if u.User != nil || u.Port() != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" || u.Opaque != "" {
		return nil, &URLError{rawURL, fmt.Errorf("it must be %s://DEVICE, with options after a ?", u.Scheme)}
	}
	h, err := open(u)
	var ue *URLError
	if errors.As(err, &ue) {
		ue.URL = rawURL
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// options reads the query of a URL with the setters given; each may stand once.
func options(u *url.URL, set map[string]func(string) error) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return &URLError{Err: err}
	}
	for name, values := range query {
		f := set[name]
		switch {
		case f == nil && len(set) == 0:
			return &URLError{Err: fmt.Errorf("%s:// has no options", u.Scheme)}
		case f == nil:
			var names []string
			for n := range set {
				names = append(names, n)
			}
			slices.Sort(names)
			return &URLError{Err: fmt.Errorf("no option is called %q: there are %s", name, strings.Join(names, ", "))}
		case len(values) != 1:
			return &URLError{Err: fmt.Errorf("option %s is given twice", name)}
		}
		if err := f(values[0]); err != nil {
			return &URLError{Err: fmt.Errorf("%s=%s: %w", name, values[0], err)}
		}
	}
	return nil
}
