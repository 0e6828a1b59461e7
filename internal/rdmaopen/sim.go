package rdmaopen

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/fanfaremq/fanfare/rdma/fabric"
)

// openSim makes a live subnet with two hosts. Options: flavor=ib (default) or
// roce; loss=P, the probability that a datagram is lost, with seed=N;
// sendonly=off, a subnet manager that refuses send-only members.
func openSim(u *url.URL) (*Host, error) {
	cfg := fabric.Config{Live: true}
	err := options(u, map[string]func(string) error{
		"flavor": func(s string) error {
			switch s {
			case "ib":
				cfg.Flavor = fabric.InfiniBand
			case "roce":
				cfg.Flavor = fabric.RoCE
			default:
				return errors.New("it must be ib or roce")
			}
			return nil
		},
		"loss": func(s string) (err error) {
			cfg.Faults.Loss, err = strconv.ParseFloat(s, 64)
			if err != nil || !(cfg.Faults.Loss >= 0 && cfg.Faults.Loss <= 1) { // also for NaN
				return errors.New("it must be a probability from 0 to 1")
			}
			return nil
		},
		"seed": func(s string) (err error) {
			if cfg.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
				return errors.New("it must be a whole number, not negative")
			}
			return nil
		},
		"sendonly": func(s string) error {
			if s != "on" && s != "off" {
				return errors.New("it must be on or off")
			}
			cfg.SM.NoSendOnly = s == "off"
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if u.Host != "" {
		return nil, &URLError{u.String(), errors.New("a simulated subnet has no name: write sim://, with options after a ?")}
	}
	f := fabric.New(cfg)
	host := func() *Host {
		h := f.AddHost(fabric.HostConfig{})
		return &Host{Provider: h, Device: "sim0", Port: 1, Addr: h.Addr()}
	}
	h := host()
	h.Peer = host()
	h.close = func() { f.Close() }
	return h, nil
}
