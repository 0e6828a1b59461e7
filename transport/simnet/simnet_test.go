package simnet_test

import (
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/simnet"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		return transporttest.Fabric{Open: func(_ testing.TB, o transporttest.Options) transport.Transport {
			queue := 512
			if o.Queue > 0 {
				queue = o.Queue
			}
			return open(t, simnet.Config{Name: t.Name(), ReceiveQueue: queue, Peers: o.Peers})
		}}
	})
}

func open(t testing.TB, cfg simnet.Config) *simnet.Transport {
	t.Helper()
	tr, err := simnet.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func parse(t testing.TB, raw string) simnet.Config {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	c, err := simnet.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func end(tr *simnet.Transport) {
	tr.Close()
	for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		tr.Wait(-1)
	}
}

// A subnet starts with its first endpoint and ends with its last, including its goroutine. Endpoints with the same name
// are on one subnet, and hosts are reused.
func TestNames(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		a, b := open(t, parse(t, "sim://one?loss=0")), open(t, parse(t, "sim://one"))
		other := open(t, parse(t, "sim://two"))
		if a.Subnet() != b.Subnet() || a.Subnet() == other.Subnet() || simnet.Lookup("one") != a.Subnet() {
			t.Error("names do not distinguish subnets")
		}
		if a.Host() == b.Host() {
			t.Error("two endpoints on one host")
		}
		host := b.Host()
		end(b)
		c := open(t, parse(t, "sim://one"))
		if c.Host() != host || c.Subnet() != a.Subnet() {
			t.Error("the host of an ended endpoint is not reused")
		}
		end(a)
		end(c)
		if simnet.Lookup("one") != nil {
			t.Error("the subnet exists after its last endpoint")
		}
		end(other)
		end(other)
	}
	testenv.AwaitGoroutines(t, before)
}

// The first endpoint makes the subnet. An endpoint with other options for the subnet gets an error.
func TestOptionsMustAgree(t *testing.T) {
	const first = "sim://agree?loss=0.5&flavor=roce&seed=3"
	a := open(t, parse(t, first))
	defer end(a)
	end(open(t, parse(t, first+"&rq=32"))) // an option of the endpoint only
	end(open(t, parse(t, "sim://agree?groups=3")))
	_, err := simnet.Open(parse(t, "sim://agree?loss=0.1"))
	if err == nil || !strings.Contains(err.Error(), "flavor=roce&loss=0.5&seed=3") {
		t.Errorf("other options: error %v, want those of the first URL", err)
	}
	if a.Subnet().Fabric.Flavor() != fabric.RoCE {
		t.Error("not RoCE")
	}
}

// An option with its default value is the same as no option.
func TestDefaultOptions(t *testing.T) {
	const all = "?flavor=ib&mtu=4096&switches=1&latency=0s&loss=0&dup=0&reorder=0&seed=0&sendonly=on&mlids=16382"
	for _, urls := range [][2]string{{"sim://defaults", "sim://defaults" + all}, {"sim://defaults" + all, "sim://defaults?switches=1"}} {
		a := open(t, parse(t, urls[0]))
		b, err := simnet.Open(parse(t, urls[1]))
		if err != nil {
			t.Errorf("opening %s after %s: %v", urls[1], urls[0], err)
		} else {
			end(b)
		}
		end(a)
	}
	if s := parse(t, "sim://"+all).Subnet.String(); s != "none" {
		t.Errorf("the defaults print as %q, want none", s)
	}
}

// A host with a changed port is not reused for the next endpoint.
func TestChangedHostIsNotReused(t *testing.T) {
	for what, change := range map[string]func(*fabric.Host){
		"port down":      func(h *fabric.Host) { h.Port(0, 1).SetUp(false) },
		"IPoIB down":     func(h *fabric.Host) { h.Port(0, 1).SetIPoIB(false) },
		"no P_Keys":      func(h *fabric.Host) { h.Port(0, 1).SetPKeys() },
		"no GIDs":        func(h *fabric.Host) { h.Port(0, 1).RemoveGIDs() },
		"small MTU":      func(h *fabric.Host) { h.Port(0, 1).SetNetDevMTU(1500) },
		"another LID":    func(h *fabric.Host) { h.Port(0, 1).ChangeLID() },
		"device removed": func(h *fabric.Host) { h.RemoveDevice(0) },
	} {
		a, b := open(t, simnet.Config{Name: "changed"}), open(t, simnet.Config{Name: "changed"})
		host := b.Host()
		change(host)
		end(b)
		c := open(t, simnet.Config{Name: "changed"})
		if c.Host() == host {
			t.Errorf("%s: the host is reused", what)
		}
		end(c)
		end(a)
	}
}

// A failed Open leaves no subnet.
func TestFailedOpen(t *testing.T) {
	if _, err := simnet.Open(simnet.Config{Name: "fails", PacketSize: 1 << 20}); err == nil {
		t.Error("no error")
	}
	if simnet.Lookup("fails") != nil {
		t.Error("the subnet still exists")
	}
}

func TestParse(t *testing.T) {
	got := parse(t, "sim://desk?flavor=ib&mtu=1024&switches=3&latency=5us&loss=0.01&dup=0.02&reorder=0.03&seed=9"+
		"&sendonly=off&mlids=7&groups=4&size=900&rq=16&sq=32&peers=5")
	if got.Name != "desk" || got.Groups != 4 || got.PacketSize != 900 || got.ReceiveQueue != 16 || got.SendQueue != 32 || got.Peers != 5 {
		t.Errorf("endpoint %+v, want the values of the URL", got)
	}
	want := simnet.SubnetConfig{MTU: 1024, Switches: 3, Latency: 5 * time.Microsecond, Loss: 0.01, Duplicate: 0.02, Reorder: 0.03, Seed: 9, NoSendOnly: true, MLIDs: 7}
	if got.Subnet != want {
		t.Errorf("subnet: %+v, want %+v", got.Subnet, want)
	}
	if again := parse(t, "sim://desk?"+want.String()); again.Subnet != want {
		t.Errorf("subnet %q parses as %+v, want the same", want, again.Subnet)
	}
	if s := (simnet.SubnetConfig{}).String(); s != "none" {
		t.Errorf("no options print as %q, want none", s)
	}
	if c := parse(t, "sim://"); c.Name != "" || c.Subnet != (simnet.SubnetConfig{}) {
		t.Errorf("sim:// is %+v, want no name and no options", c)
	}
	for raw, hint := range map[string]string{
		"udp://x":                     "scheme",
		"sim://x/y":                   "sim://name",
		"sim://x:5":                   "sim://name",
		"sim:x":                       "sim://name",
		"sim://u@x":                   "sim://name",
		"sim://x?los=1":               "known are",
		"sim://x?loss=1&loss=0":       "2 times",
		"sim://x?loss=2":              "probability",
		"sim://x?dup=nan":             "probability",
		"sim://x?reorder=-1":          "probability",
		"sim://x?flavor=ethernet":     "ib or roce",
		"sim://x?mtu=1000":            "1024",
		"sim://x?mtu=x":               "1024",
		"sim://x?switches=0":          "from 1",
		"sim://x?latency=5":           "unit",
		"sim://x?seed=-1":             "seed",
		"sim://x?sendonly=maybe":      "on or off",
		"sim://x?mlids=0":             "from 1",
		"sim://x?rq=15":               "from 16",
		"sim://x?groups=a":            "whole number",
		"sim://x?flavor=roce&mlids=3": "RoCE does not have",
		"sim://x?mtu=256&size=257":    "more than mtu",
		"sim://x?size=%zz":            "cannot be read",
		"sim://?size=%zz":             "\"sim://?size",
		"sim://#x":                    "\"sim://#x",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := simnet.Parse(u); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q): %v; want an error with %q", raw, err, hint)
		}
	}
}

func TestMTU(t *testing.T) {
	for _, flavor := range []string{"ib", "roce"} {
		for _, mtu := range []string{"256", "1024", "4096"} {
			tr := open(t, parse(t, "sim://mtu?flavor="+flavor+"&mtu="+mtu))
			want := map[string]int{"256": 256, "1024": 1024, "4096": 4096}[mtu]
			if got := tr.Capabilities().MaxPacket; got != want {
				t.Errorf("%s with mtu=%s carries %d bytes, want %d", flavor, mtu, got, want)
			}
			if err := tr.Join(0); err != nil {
				t.Fatal(err)
			}
			b := transport.NewBatch(1)
			for len(b.Events) == 0 {
				if err := tr.Poll(b); err != nil {
					t.Fatal(err)
				}
				tr.Wait(time.Millisecond)
			}
			if b.Events[0].State != transport.Joined {
				t.Errorf("%s with mtu=%s: event %+v, want %v", flavor, mtu, b.Events[0], transport.Joined)
			}
			if m := tr.Subnet().Fabric.Members(tr.MGID(0)); flavor == "ib" && len(m) != 1 {
				t.Errorf("MGID %v has members %v, want 1", tr.MGID(0), m)
			}
			end(tr)
		}
	}
}
