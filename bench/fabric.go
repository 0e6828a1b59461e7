package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Try opens Fanfare's fabric and closes it again, so that wrong settings fail before any worker starts.
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

// fabric is the URL of Fanfare's fabric for one run: the given URL, or that of the transport, with
// missing options added. UDP gets an unused port, because runs must not receive each other's final
// packets; RoCE, which has one port, gets other groups. The interface is always set: nothing is
// sent on the interface of the default route unless requested.
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

// FabricName is the text for the fabric.
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

// baselineGroup is the multicast address of baselines.
func baselineGroup(port int) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{239, 20, 255, 1}), uint16(port)).String()
}
