package rocenet_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport/rocenet"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]rocenet.Config{
		"roce://":                         {},
		"roce://eth0":                     {Interface: "eth0"},
		"roce://10.0.0.1/":                {Interface: "10.0.0.1"},
		"roce://eth0/239.20.0.0/16":       {Interface: "eth0", Range: netip.MustParsePrefix("239.20.0.0/16")},
		"roce://eth0?groups=8&size=1024":  {Interface: "eth0", Groups: 8, PacketSize: 1024},
		"roce://eth0?rq=256&sq=64":        {Interface: "eth0", ReceiveQueue: 256, SendQueue: 64},
		"roce://eth0?check=full&gso=off":  {Interface: "eth0", Check: roce.CheckFull, NoGSO: true},
		"roce://eth0?check=udp&gro=off":   {Interface: "eth0", Check: roce.CheckUDP, NoGRO: true},
		"roce://eth0?rcvbuf=8M&sndbuf=1K": {Interface: "eth0", ReceiveBuffer: 8 << 20, SendBuffer: 1 << 10},
		"roce://eth0/ff15::20:0/112":      {Interface: "eth0", Range: netip.MustParsePrefix("ff15::20:0/112")},
		"roce://[fd00::1]":                {Interface: "fd00::1"},
		"roce://eth0?relay=any&peers=7":   {Interface: "eth0", RelayAnyUser: true, Peers: 7},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rocenet.Parse(u); err != nil || got != want {
			t.Errorf("%s: config %+v, error %v, want %+v", raw, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"udp://eth0":                       "is not roce",
		"roce:eth0":                        "is not of the form",
		"roce://eth0:4791":                 "the port is always 4791",
		"roce://me@eth0":                   "is not of the form",
		"roce://eth0/10.0.0.0/8":           "is not a range of multicast groups",
		"roce://eth0/239.1.2.3":            "is not a range of multicast groups",
		"roce://eth0/::ffff:239.1.0.0/112": "is not a range of multicast groups",
		"roce://eth0/fd00::/64":            "is not a range of multicast groups",
		"roce://eth0?nosuch=1":             `unknown option "nosuch"; known are check, gro, groups`,
		"roce://eth0?size=10":              "must be a whole number from 64 to 4096",
		"roce://eth0?size=1024&size=512":   "is given 2 times",
		"roce://eth0?check=some":           "must be best, full or udp",
		"roce://eth0?gso=1":                "must be auto or off",
		"roce://eth0?relay=1":              "must be user or any",
		"roce://eth0?rcvbuf=2G":            "must be from 1 to 1G bytes",
		"roce://eth0?rq=%zz":               "cannot be read",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rocenet.Parse(u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", raw, err, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for name, want := range map[string]string{
		"nosuch0":    `there is no interface "nosuch0"`,
		"192.0.2.1":  "no interface has the address 192.0.2.1",
		"fd00::77:1": "no interface has the address fd00::77:1",
	} {
		if _, err := rocenet.Open(rocenet.Config{Interface: name}); err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "Linux only") {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	if _, err := rocenet.Open(rocenet.Config{Interface: "127.0.0.1", Groups: 99999}); err == nil {
		t.Error("99999 groups were accepted")
	}
}
