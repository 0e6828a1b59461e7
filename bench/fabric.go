package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Try opens Fanfare's fabric and closes it again: it is an error of the settings that it
// cannot be, and should not be learnt of by processes.
func (s *Settings) Try(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	fabric, err := s.fabric(port)
	if err != nil {
		return err
	}
	bus, err := pubsub.Config{Logger: slog.New(slog.DiscardHandler)}.Open(ctx, fabric)
	if err != nil {
		return err
	}
	return bus.Close()
}

// fabric is the URL of Fanfare's fabric for one run: the one that was given, or that of the transport, with what it
// leaves open. Over UDP it gets a port that nothing else uses, for runs must not hear each other's farewells; over
// RoCE, which has one port, groups. It gets the interface: nothing goes out at the one with the default route unless
// that is asked for.
func (s *Settings) fabric(port int) (string, error) {
	raw := s.URL
	if raw == "" {
		raw = s.Transport + "://"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	q := u.Query()
	complete := func(name string, val any) {
		if !q.Has(name) {
			q.Set(name, fmt.Sprint(val))
		}
	}
	complete("size", s.MTU)
	host, path := u.Host, u.Path
	if !s.InProcess() && s.Transport != "shm" {
		complete("rcvbuf", s.RecvBuf)
		complete("sndbuf", s.SendBuf)
	}
	switch s.Transport {
	case "udp":
		if u.Port() == "" {
			complete("port", port)
		}
		complete("iface", s.Interface)
		if host == "" {
			host, path = "239.20.0.0", "/16"
		}
	case "roce":
		if host == "" {
			host = s.Interface
		}
		if path == "" || path == "/" {
			path = fmt.Sprintf("/239.%d.%d.0/24", 21+port>>8%200, port&0xff)
		}
	default:
		if host == "" {
			host = fmt.Sprintf("bench-%d", port)
		}
	}
	return fmt.Sprintf("%s://%s%s?%s", u.Scheme, host, path, q.Encode()), nil
}

// FabricName is where messages go, for people.
func (s *Settings) FabricName() string {
	switch {
	case s.URL != "":
		return s.URL
	case s.InProcess():
		return s.Transport + ", within one process"
	}
	if s.Transport == "shm" {
		return "shm, between processes"
	}
	return s.Transport + " on " + s.Interface
}

// baselineGroup is where baselines send.
func baselineGroup(port int) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{239, 20, 255, 1}), uint16(port)).String()
}
