package verbsnet

import (
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/rdma/verbs"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

func parse(t *testing.T, s string) (Config, error) {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(u)
}

func TestParse(t *testing.T) {
	c, err := parse(t, "rdma://ib0/239.30.0.0/24?groups=8&size=1024&rq=64&sq=32&arena=9M&peers=5&port=2")
	if err != nil {
		t.Fatal(err)
	}
	if c.Device != "ib0" || c.Range.String() != "239.30.0.0/24" || c.Groups != 8 || c.PacketSize != 1024 || c.ReceiveQueue != 64 || c.SendQueue != 32 || c.Arena != 9<<20 || c.Peers != 5 || c.Port != 2 {
		t.Errorf("config %+v, want the values of the URL", c)
	}
	if c, err := parse(t, "rdma://[fe80::1]"); err != nil || c.Device != "fe80::1" {
		t.Errorf("config %+v, error %v, want device fe80::1", c, err)
	}
}

// The error for an invalid URL says what is valid.
func TestParseErrors(t *testing.T) {
	for s, want := range map[string]string{
		"udp://x":                     "scheme",
		"rdma://rxe0:4791":            "rdma://device/range",
		"rdma://rxe0/10.0.0.0/8":      "/239.20.0.0/16",
		"rdma://rxe0/rubbish":         "/239.20.0.0/16",
		"rdma://rxe0?group=1":         "known are arena, groups, peers, port",
		"rdma://rxe0?groups=0":        "from 1 to",
		"rdma://rxe0?rq=16&rq=32":     "2 times",
		"rdma://rxe0?groups=%":        "cannot be read",
		"rdma://rxe0?size=1000000":    "from 64 to 4096",
		"rdma://user@rxe0?groups=100": "rdma://device/range",
	} {
		if _, err := parse(t, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", s, err, want)
		}
	}
}

// Without the build tag or without a device, Open returns an error of one line with advice.
func TestOpenWithoutDevice(t *testing.T) {
	tr, err := Open(Config{})
	if err == nil { // with the tag and a device
		tr.Close()
		for tr.Poll(transport.NewBatch(1)) == nil {
			_ = tr.Wait(-1)
		}
		return
	}
	if !errors.Is(err, verbs.ErrNotBuilt) && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.ENODEV) || strings.Contains(err.Error(), "\n") {
		t.Errorf("open: error %v, want ErrNotBuilt, ENOSYS or ENODEV in one line", err)
	}
}

// A device is found by its name, its interface or its address.
func TestFind(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	h := f.AddHost(fabric.HostConfig{})
	names, err := h.Devices()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := h.OpenDevice(names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	port, err := dev.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []Config{{Device: names[0], Port: 1}, {Device: port.NetDev}, {Device: h.Addr().IP.String()}, {}} {
		var uc ud.Config
		if err := find(h, cfg, &uc); err != nil {
			t.Errorf("finding %+v: %v", cfg, err)
		}
		byName := uc.Device == names[0] && !uc.Local.IsValid()
		byAddr := uc.Device == "" && uc.Local == h.Addr().IP
		none := cfg.Device == "" && uc.Device == "" && !uc.Local.IsValid()
		if !byName && !byAddr && !none {
			t.Errorf("find with %+v: device %q, address %v, want one of the two or neither as given", cfg, uc.Device, uc.Local)
		}
	}
	for _, cfg := range []Config{{Device: "nothing"}, {Device: port.NetDev, Port: 2}, {Device: "10.0.0.1", Port: 1}} {
		if err := find(h, cfg, &ud.Config{}); err == nil {
			t.Errorf("%+v was found", cfg)
		}
	}
	if err := find(h, Config{Device: "nothing"}, &ud.Config{}); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("find: error %v, want %v with the device names", err, syscall.ENODEV)
	}
}
