package udp_test

import (
	"bytes"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/udp"
)

func parse(t *testing.T, raw string) (udp.Config, error) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return udp.Parse(u)
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]udp.Config{
		"udp://":                     {},
		"udp:///":                    {},
		"udp://?iface=lo":            {Interface: "lo"},
		"udp://239.20.0.0/16":        {Range: netip.MustParsePrefix("239.20.0.0/16")},
		"udp://239.20.0.5/16":        {Range: netip.MustParsePrefix("239.20.0.5/16")},
		"udp://239.20.0.5":           {Range: netip.MustParsePrefix("239.20.0.5/32")},
		"udp://239.20.0.5:9000/24":   {Range: netip.MustParsePrefix("239.20.0.5/24"), Port: 9000},
		"udp://[ff15::20:0]/112":     {Range: netip.MustParsePrefix("ff15::20:0/112")},
		"udp://[ff15::1]:9/128":      {Range: netip.MustParsePrefix("ff15::1/128"), Port: 9},
		"udp://?ttl=0":               {TTL: -1},
		"udp://?rcvbuf=8M&sndbuf=5k": {ReceiveBuffer: 8 << 20, SendBuffer: 5 << 10},
		"udp://?loop=true&gso=auto":  {},
		"udp://?uport=0":             {},
	} {
		if got, err := parse(t, raw); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", raw, got, err, want)
		}
	}
}

// Every field of Config can be set from a URL.
func TestParseSetsEveryField(t *testing.T) {
	c, err := parse(t, "udp://239.1.2.0/24?iface=lo&port=1&groups=2&ttl=3&loop=false&size=400&rcvbuf=5&sndbuf=6&gso=off&gro=off&uport=7&lend=8&peers=9")
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("no option sets %s", v.Type().Field(i).Name)
		}
	}
	want := udp.Config{
		Range: netip.MustParsePrefix("239.1.2.0/24"), Interface: "lo", Port: 1, Groups: 2, TTL: 3, NoLoopback: true,
		PacketSize: 400, ReceiveBuffer: 5, SendBuffer: 6, NoGSO: true, NoGRO: true, UnicastPort: 7, LendMax: 8, Peers: 9,
	}
	if c != want {
		t.Errorf("Parse = %+v, want %+v", c, want)
	}
}

// Each mistake causes an error of one line with advice.
func TestParseErrors(t *testing.T) {
	for raw, hint := range map[string]string{
		"tcp://239.20.0.0/16":            "scheme",
		"udp:239.20.0.0":                 "udp://address/bits",
		"udp://me@239.20.0.0":            "udp://address/bits",
		"udp://239.20.0.0/16#x":          "udp://address/bits",
		"udp:///16":                      "udp://239.20.0.0/16",
		"udp://example.com/16":           "not an IP address",
		"udp://10.0.0.0/8":               "not all multicast",
		"udp://239.0.0.0/3":              "not all multicast",
		"udp://[fe80::1]/64":             "not all multicast",
		"udp://[::ffff:239.20.0.0]/112":  "plain IPv4",
		"udp://[ff12::1%25eth0]/112":     "iface=",
		"udp://239.20.0.0/33":            "/0 to /32",
		"udp://239.20.0.0/x":             "/0 to /32",
		"udp://[ff15::]/129":             "/0 to /128",
		"udp://239.20.0.0?groups=2":      "fewer groups",
		"udp://239.20.0.255/24?groups=2": "which has 1",
		"udp://?groups=0":                "groups=0",
		"udp://?groups=70000":            "65536",
		"udp://?groups=x":                "whole number",
		"udp://?port=0":                  "port=0",
		"udp://?port=65536":              "1 to 65535",
		"udp://239.20.0.0:70/16?port=70": "port twice",
		"udp://?uport=7400":              "port of their own",
		"udp://?uport=99999":             "uport",
		"udp://?ttl=256":                 "from 0 to 255",
		"udp://?ttl=-1":                  "ttl=-1",
		"udp://?loop=maybe":              "true or false",
		"udp://?size=10":                 "64 to 65507",
		"udp://?size=65508":              "64 to 65507",
		"udp://?rcvbuf=0":                "such as 8388608 or 8M",
		"udp://?rcvbuf=2G":               "1G",
		"udp://?sndbuf=1T":               "1G",
		"udp://?gso=on":                  "auto or off",
		"udp://?gro=1":                   "auto or off",
		"udp://?lend=5000":               "4096",
		"udp://?peers=65536":             "65535",
		"udp://?interface=eth0":          "known are gro, groups, gso, iface",
		"udp://?iface=":                  "leave it out",
		"udp://?port=1&port=2":           "2 times",
		"udp://?port=%zz":                "cannot be read",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			continue // url.Parse rejects it
		}
		_, err = udp.Parse(u)
		if err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q): error %v, want one with %q", raw, err, hint)
		} else if !strings.HasPrefix(err.Error(), "udp: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Parse(%q): error %q is not one line of this package", raw, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for hint, cfg := range map[string]udp.Config{
		"no interface \"nope0\"":                  {Interface: "nope0"},
		"this host has lo":                        {Interface: "nope0"},
		"no interface has the address 192.0.2.77": {Interface: "192.0.2.77"},
		"does not fit IPv4 groups":                {Interface: "::1"},
		"does not fit IPv6 groups":                {Interface: "127.0.0.1", Range: netip.MustParsePrefix("ff15::/64")},
		"not all multicast":                       {Interface: "127.0.0.1", Range: netip.MustParsePrefix("10.0.0.0/8")},
		"groups is -1":                            {Interface: "127.0.0.1", Groups: -1},
		"peers is -1":                             {Interface: "127.0.0.1", Peers: -1},
	} {
		tr, err := udp.Open(cfg)
		if err == nil {
			end(tr)
		}
		if err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Open(%+v): error %v, want one with %q", cfg, err, hint)
		}
	}
}

// docs/protocol §15.3, §16.1.
func TestGroupAddresses(t *testing.T) {
	cfg := loopback(t)
	cfg.Port = 7000
	for base, want := range map[string]string{
		"239.20.0.0/16":   "239.20.0.3:7000",
		"239.20.0.254/16": "239.20.1.1:7000",
	} {
		cfg.Range = netip.MustParsePrefix(base)
		tr := open(t, cfg)
		if got := tr.GroupAddress(3); got != want {
			t.Errorf("group 3 of %s is %s, want %s", base, got, want)
		}
		end(tr)
	}
}

// docs/protocol §15.4, §16.2, §16.6.
func TestDefaults(t *testing.T) {
	tr := open(t, udp.Config{Interface: "127.0.0.1"})
	defer end(tr)
	c := tr.Capabilities()
	if c.Groups != 16 || c.PacketSize != 1472 || c.MaxPacket > 65507 || tr.GroupAddress(0) != "239.20.0.0:7400" {
		t.Errorf("group 0 is %s, capabilities %+v, want 239.20.0.0:7400, 16 groups and packets of 1472", tr.GroupAddress(0), c)
	}
	l := tr.SocketLimits()
	if l.ReceiveAsked != 8<<20 || l.SendAsked != 2<<20 || l.ReceiveGranted <= 0 || l.ReceiveGranted > l.ReceiveAsked || l.SendGranted <= 0 {
		t.Errorf("limits %+v, want %d and %d bytes asked, and at most as many granted to receive", l, 8<<20, 2<<20)
	}
	if a := tr.LocalAddr(); a.Addr() != netip.MustParseAddr("127.0.0.1") || a.Port() == 0 || a.Port() == 7400 {
		t.Errorf("local address %v, want 127.0.0.1 and a port other than 7400", a)
	}
	one := open(t, udp.Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.20.0.8/30")})
	defer end(one)
	if g := one.Capabilities().Groups; g != 4 {
		t.Errorf("a range of 4 addresses has %d groups, want 4", g)
	}
}

// Whatever its configured packet size, an endpoint receives packets of all sizes up to 65507 bytes. docs/protocol
// §16.6.
func TestReceivesLargePackets(t *testing.T) {
	small := loopback(t)
	small.PacketSize = 512
	large := small
	large.PacketSize = 65507
	tx, rx := open(t, large), open(t, small)
	defer end(tx)
	defer end(rx)
	if err := rx.Join(1); err != nil {
		t.Fatal(err)
	}
	s, err := tx.NewSender(1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	batch := transport.NewBatch(8)
	for _, size := range []int{513, 1472, 1473, 65506, 65507} {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(i * size)
		}
		var got []byte
		for try := 0; got == nil && try < 100; try++ { // multicast may be lost, though rarely on loopback
			if n, err := s.Send(&transport.Outbound{Data: p, Stride: size, Count: 1, Lens: []uint16{uint16(size)}}); n != 1 || err != nil {
				t.Fatalf("Send of %d bytes: %d packets, error %v, want 1", size, n, err)
			}
			rx.Wait(time.Second)
			if err := rx.Poll(batch); err != nil {
				t.Fatal(err)
			}
			for i := range batch.Trains {
				if q := batch.Trains[i].Packet(0); len(q) >= size { // an earlier packet may have been sent twice
					got = bytes.Clone(q)
				}
				rx.Release(&batch.Trains[i])
			}
		}
		if !bytes.Equal(got, p) {
			t.Errorf("received %[2]d bytes of a packet of %[1]d, or other bytes", size, len(got))
		}
	}
}

// A failed Open returns the reason as an error that programs can match, and leaves nothing open.
func TestOpenLeavesNothing(t *testing.T) {
	cfg := loopback(t)
	first := open(t, cfg)
	defer end(first)
	before, _ := os.ReadDir("/proc/self/fd")
	cfg.UnicastPort = int(first.LocalAddr().Port())
	for range 5 {
		if tr, err := udp.Open(cfg); err == nil {
			end(tr)
			t.Fatal("two transports have the same address for replies")
		} else if runtime.GOOS == "linux" && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("the port is in use, but Open returned %v", err)
		}
	}
	if after, _ := os.ReadDir("/proc/self/fd"); len(after) > len(before) {
		t.Errorf("%d open files before, %d after", len(before), len(after))
	}
}
