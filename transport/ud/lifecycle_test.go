package ud_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// A transport that has ended has released everything. The device has exactly the resources for one transport, so that
// the second could not open if the first had kept anything. The subnet has no more members of its groups.
func TestEverythingIsReleased(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		host := r.f.AddHost(fabric.HostConfig{Limits: func(a *rdma.DeviceAttr) {
			// A queue pair and its two completion queues, the transport's memory and one Alloc, handles of two groups and two
			// peers.
			a.MaxQP, a.MaxCQ, a.MaxPD, a.MaxMR, a.MaxAH = 1, 2, 1, 2, 2+2
		}})
		other := r.node(ud.Config{})
		r.join(other, 0)
		back := r.sender(other, 1)
		before := runtime.NumGoroutine()
		for range 5 {
			n := r.node(ud.Config{Provider: host, Groups: 2, Peers: 2})
			mem, err := n.Alloc(1 << 16)
			if err != nil {
				t.Fatal(err)
			}
			n.retain = true
			r.join(n, 1)
			s, retryAfter := r.sender(n, 0), r.sender(n, 1)
			r.send(s, "there")
			r.want(other, 0, "there")
			r.send(back, "and back")
			r.want(n, 1, "and back")
			r.send(retryAfter, "own")
			r.want(n, 1, "own")
			if err := n.Reply(n.peer, []byte("to myself")); err != nil {
				t.Fatal(err)
			}
			if runtime.NumGoroutine() > before {
				t.Errorf("%d goroutines, want at most the %d before", runtime.NumGoroutine(), before)
			}
			r.f.Trace()
			r.close(n)
			r.quiet(time.Millisecond)
			left := 0
			for _, rec := range r.f.Trace() {
				if rec.Host == host.HostName() && (rec.Kind == fabric.SADelete || rec.Kind == fabric.IGMPLeave) {
					left++
				}
			}
			// On InfiniBand one for each group, whatever the roles; on RoCE one for the group that was joined as a receiver.
			if want := map[fabric.Flavor]int{fabric.InfiniBand: 2, fabric.RoCE: 1}[flavor]; left != want {
				t.Errorf("the subnet received %d leaves, want %d", left, want)
			}
			mem[0] = 1 // allocated memory outlives the transport
			n.Free(mem)
			n.Free(mem)
		}
		dev, err := host.OpenDevice("sim0")
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
	})
}

// The removal of a device ends the transport with an error that names the device and is not net.ErrClosed. Everything
// is released, and Close still succeeds.
func TestDeviceRemoval(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		n := r.node(ud.Config{})
		r.join(n, 0)
		s := r.sender(n, 1)
		mem, err := n.Alloc(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Free(mem)
		n.host.RemoveDevice(0)
		r.until("the transport ends", func() bool { return n.end != nil })
		if !errors.Is(n.end, syscall.ENODEV) || errors.Is(n.end, net.ErrClosed) {
			t.Errorf("transport ended with %v, want %v", n.end, syscall.ENODEV)
		}
		if err := n.Poll(n.batch); err == nil || err.Error() != n.end.Error() {
			t.Errorf("Poll after the end: error %v, want %v", err, n.end)
		}
		if _, err := s.Send(one("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send: error %v, want %v", err, net.ErrClosed)
		}
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if devices, _ := n.host.Devices(); len(devices) != 0 {
			t.Errorf("devices %v, want none", devices)
		}
	})
}

// Close works while a join has no answer, the device has not read all sends, and a membership is lost.
func TestCloseWhileBusy(t *testing.T) {
	r := newRig(t, fabric.Config{SendDelay: 20 * time.Millisecond})
	n, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	s := r.sender(n, 0)
	r.sender(n, 2)
	r.f.SetSM(fabric.SM{Silent: true})
	n.Join(1)
	n.host.Port(0, 1).Reregister()
	r.f.SetSM(fabric.SM{})
	r.event(n, 0, transport.RoleSender, transport.Lost)
	r.event(n, 2, transport.RoleSender, transport.Lost)
	r.until("both are members again", func() bool {
		joined := 0
		for _, e := range n.events {
			if e.Role == transport.RoleSender && e.State == transport.Joined {
				joined++
			}
		}
		return joined == 2
	})
	r.send(s, "goodbye")
	r.close(n)
	if got := s.Completed(); got != 1 {
		t.Errorf("%d of 1 packets completed", got)
	}
	r.want(sub, 0, "goodbye") // this packet was sent before the end
}

// A transport ends even if the device never completes its sends.
func TestCloseDoesNotWaitForever(t *testing.T) {
	r := newRig(t, fabric.Config{SendDelay: time.Hour})
	n := r.node(ud.Config{})
	s := r.sender(n, 0)
	r.send(s, "stuck")
	start := r.f.Now()
	r.close(n)
	if d := r.f.Now() - start; d > 5*time.Second {
		t.Errorf("the end took %v, want at most 5 s", d)
	}
	if s.Completed() != 1 {
		t.Error("the memory is not released after the end")
	}
}

func TestBadConfig(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	host := f.AddHost(fabric.HostConfig{Limits: func(a *rdma.DeviceAttr) { a.MaxMcastGrp, a.MaxQPWR = 8, 1024 }})
	for hint, cfg := range map[string]ud.Config{
		"Provider":                  {},
		"leave one out":             {Provider: host, Device: "sim0", Local: netip.MustParseAddr("10.77.0.1")},
		"not all":                   {Provider: host, Range: netip.MustParsePrefix("10.0.0.0/8")},
		"do not fit into the range": {Provider: host, Range: netip.MustParsePrefix("239.1.1.0/30"), Groups: 5},
		"groups is":                 {Provider: host, Groups: -1},
		"port is":                   {Provider: host, Port: 256},
		"receive queue is":          {Provider: host, ReceiveQueue: 15},
		"send queue is":             {Provider: host, SendQueue: 1 << 20},
		"packet size is":            {Provider: host, PacketSize: 5000},
		"peers is":                  {Provider: host, Peers: 1 << 16},
		"can attach to 8":           {Provider: host, Groups: 9},
		"which is 1024":             {Provider: host, Groups: 8, ReceiveQueue: 1025},
		"no port 2":                 {Provider: host, Groups: 8, Port: 2},
		"open device nope":          {Provider: host, Groups: 8, Device: "nope"},
		"bind to":                   {Provider: host, Groups: 8, Local: netip.MustParseAddr("10.1.1.1")},
	} {
		tr, err := ud.Open(cfg)
		if tr != nil || err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Open(%+v): %v; want an error with %q", cfg, err, hint)
		}
	}
	if _, err := ud.Open(ud.Config{Provider: host, Groups: 9}); !errors.Is(err, transport.ErrGroupLimit) {
		t.Errorf("Open with too many groups: error %v, want %v", err, transport.ErrGroupLimit)
	}
	small := fabric.New(fabric.Config{MTU: 1024})
	defer small.Close()
	if _, err := ud.Open(ud.Config{Provider: small.AddHost(fabric.HostConfig{}), PacketSize: 2048}); err == nil || !strings.Contains(err.Error(), "with an MTU of 1024") {
		t.Errorf("Open with packets above the MTU: error %v, want the MTU of 1024 named", err)
	}
	// The failed calls have released everything.
	dev, err := host.OpenDevice("sim0")
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
}

// A failing Open releases everything that it made, whichever step fails.
func TestFailedOpenReleases(t *testing.T) {
	for what, limit := range map[string]func(*rdma.DeviceAttr){
		"queue pair":       func(a *rdma.DeviceAttr) { a.MaxQP = 0 },
		"completion queue": func(a *rdma.DeviceAttr) { a.MaxCQ = 1 },
		"registered":       func(a *rdma.DeviceAttr) { a.MaxMR = 0 },
		"domain":           func(a *rdma.DeviceAttr) { a.MaxPD = 0 },
	} {
		t.Run(what, func(t *testing.T) {
			f := fabric.New(fabric.Config{})
			defer f.Close()
			host := f.AddHost(fabric.HostConfig{Limits: limit})
			for range 3 {
				if _, err := ud.Open(ud.Config{Provider: host}); !errors.Is(err, syscall.ENOMEM) {
					t.Fatalf("Open: error %v, want %v", err, syscall.ENOMEM)
				}
			}
		})
	}
}

// Open uses the configured device and port, and prefers active ports.
func TestChoiceOfPort(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	host := f.AddHost(fabric.HostConfig{Devices: 2, Ports: 2})
	host.Port(0, 1).SetUp(false)
	for _, c := range []struct {
		cfg  ud.Config
		want *fabric.Port
	}{
		{ud.Config{}, host.Port(0, 2)},
		{ud.Config{Device: "sim1"}, host.Port(1, 1)},
		{ud.Config{Device: "sim1", Port: 2}, host.Port(1, 2)},
		{ud.Config{Port: 1}, host.Port(1, 1)},
		{ud.Config{Device: "sim0", Port: 1}, host.Port(0, 1)},
		{ud.Config{Local: host.Port(1, 2).Addr().IP}, host.Port(1, 2)},
	} {
		c.cfg.Provider = host
		tr, err := ud.Open(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.LocalAddr(); got != c.want.Addr() {
			t.Errorf("%+v uses %v, want %v", c.cfg, got, c.want.Addr())
		}
		tr.Close()
		for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		}
	}
}

// docs/protocol §17.8.
func TestCapabilities(t *testing.T) {
	for _, mtu := range []rdma.MTU{256, 1024, 4096} {
		f := fabric.New(fabric.Config{MTU: mtu})
		defer f.Close()
		tr, err := ud.Open(ud.Config{Provider: f.AddHost(fabric.HostConfig{}), ReceiveQueue: 64, PacketSize: 200})
		if err != nil {
			t.Fatal(err)
		}
		c := tr.Capabilities()
		if c.MaxPacket != int(mtu) || c.PacketSize != 200 || c.LendMax != 16 || c.ReceiveCapacity > 64 || c.ReceiveCapacity < 48 || !c.Checked || c.EqualTrains {
			t.Errorf("capabilities %+v, want packets of 200 up to %d, 16 lent, a capacity of 48 to 64", c, mtu)
		}
		tr.Close()
		for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		}
	}
}
