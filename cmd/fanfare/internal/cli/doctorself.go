package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// Messages that a self-test of pub/sub sends in trains, so that it uses segmentation offloads.
const (
	selfMessages = 100
	selfBytes    = 1000
)

type selfTest func(context.Context) doctor.Finding

func (d *doctorRun) selfTests(facts *doctor.Facts) []selfTest {
	name := "doctor-" + strconv.Itoa(os.Getpid())
	tests := []selfTest{
		func(ctx context.Context) doctor.Finding { return d.busTest(ctx, "mem", "mem://"+name) },
		func(ctx context.Context) doctor.Finding { return d.groupTest(ctx, "sim", "sim://") },
		func(ctx context.Context) doctor.Finding { return d.udpTest(ctx, sys.LoopbackName()) },
		func(ctx context.Context) doctor.Finding {
			return d.groupTest(ctx, "roce", "roce://"+sys.LoopbackName())
		},
	}
	devices := facts.RDMADevices()
	if runtime.GOOS == "linux" {
		tests = append(tests, func(ctx context.Context) doctor.Finding {
			f := d.busTest(ctx, "shm", "shm://"+name)
			if f.Level == doctor.Fail {
				f.Level = doctor.Warn // few users need it
			}
			return f
		})
	}
	if d.iface == "" {
		for _, dev := range slices.Sorted(maps.Keys(devices)) {
			tests = append(tests, func(context.Context) doctor.Finding {
				return finding("rdma", doctor.Info, "fanfare doctor -iface "+dev, "rdma://%s was not tested, because that sends packets to its network: add -iface to test it", dev)
			})
		}
		return tests
	}
	_, isDevice := devices[d.iface]
	if !isDevice {
		tests = append(tests,
			func(ctx context.Context) doctor.Finding { return d.udpTest(ctx, d.iface) },
			func(ctx context.Context) doctor.Finding { return d.groupTest(ctx, "roce", "roce://"+d.iface) })
	}
	for _, dev := range slices.Sorted(maps.Keys(devices)) {
		if dev != d.iface && (isDevice || !slices.Contains(devices[dev], d.iface)) {
			continue
		}
		tests = append(tests, func(ctx context.Context) doctor.Finding {
			if facts.Verbs == nil {
				return finding("rdma", doctor.Warn, "", "rdma://%s was not tested: %v", dev, facts.VerbsErr)
			}
			return d.groupTest(ctx, "rdma", "rdma://"+dev)
		})
	}
	return tests
}

// where resolves -iface, a name or an address, to a network interface or an RDMA device of this host.
func (d *doctorRun) where(facts *doctor.Facts) error {
	if d.iface == "" {
		return nil
	}
	devices := facts.RDMADevices()
	if _, ok := devices[d.iface]; ok {
		return nil
	}
	links, err := sys.Interfaces()
	if err != nil {
		return err
	}
	addr, _ := netip.ParseAddr(d.iface)
	var names []string
	for _, l := range links {
		if l.Name == d.iface {
			return nil
		}
		names = append(names, l.Name)
		if addr.IsValid() && slices.Contains(facts.Addrs[l.Name], addr.Unmap()) {
			d.iface = l.Name
			return nil
		}
	}
	slices.Sort(names)
	rdmaNames := "none"
	if len(devices) > 0 {
		rdmaNames = strings.Join(slices.Sorted(maps.Keys(devices)), ", ")
	}
	return usagef("-iface %q is not a network interface, an address or an RDMA device of this host: interfaces are %s; RDMA devices: %s", d.iface, strings.Join(names, ", "), rdmaNames)
}

func finding(area string, level doctor.Level, fix, format string, args ...any) doctor.Finding {
	return doctor.Finding{Area: area, Level: level, Text: fmt.Sprintf(format, args...), Fix: fix}
}

var errSelfTimeout = errors.New("no answer in time")

func (d *doctorRun) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.timeout, errSelfTimeout)
}

func (d *doctorRun) busTest(ctx context.Context, area, rawURL string) doctor.Finding {
	from, err := selfConfig().Open(ctx, rawURL)
	if err != nil {
		return finding(area, doctor.Fail, "", "%s cannot be opened: %v", rawURL, err)
	}
	defer from.Close()
	to, err := selfConfig().Open(ctx, rawURL)
	if err != nil {
		return finding(area, doctor.Fail, "", "%s cannot be opened twice: %v", rawURL, err)
	}
	defer to.Close()
	n, err := d.roundTrip(ctx, from, to)
	if err != nil {
		return finding(area, doctor.Fail, "", "%s: received %d of %d messages: %v", rawURL, n, selfMessages, err)
	}
	return finding(area, doctor.OK, "", "%s: received %d of %d messages in a self-test", area, n, selfMessages)
}

// selfConfig is the configuration of a bus without a log: the finding contains the errors.
func selfConfig() pubsub.Config { return pubsub.Config{Logger: slog.New(slog.DiscardHandler)} }

func (d *doctorRun) roundTrip(ctx context.Context, from, to *pubsub.Bus) (got int, err error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	const topic = "fanfare.doctor"
	sub, err := to.Subscribe(topic)
	if err != nil {
		return 0, err
	}
	pub, err := from.Publisher(topic)
	if err != nil {
		return 0, err
	}
	if err = pub.WaitSubscribers(ctx, 1); err == nil {
		// In a batch, so that there are trains, which show whether the kernel splits them. It is less than the window.
		_, err = pub.PublishBatch(ctx, slices.Repeat([][]byte{make([]byte, selfBytes)}, selfMessages))
	}
	for err == nil && got < selfMessages {
		if _, err = sub.Next(ctx); err == nil {
			got++
		}
	}
	return got, cmp.Or(context.Cause(ctx), err)
}

func (d *doctorRun) udpTest(ctx context.Context, iface string) doctor.Finding {
	port, err := freePort()
	if err != nil {
		return finding("udp", doctor.Fail, "", "no free UDP port: %v", err)
	}
	open := func() (*udp.Transport, *pubsub.Bus, error) {
		u := &url.URL{Scheme: "udp", Host: "239.20.255.1", RawQuery: url.Values{"iface": {iface}, "port": {strconv.Itoa(port)}}.Encode()}
		cfg, err := udp.Parse(u)
		if err != nil {
			return nil, nil, err
		}
		t, err := udp.Open(cfg)
		if err != nil {
			return nil, nil, err
		}
		bus, err := selfConfig().OpenTransport(t)
		if err != nil {
			finish(t)
		}
		return t, bus, err
	}
	t, from, err := open()
	if err != nil {
		return finding("udp", doctor.Fail, "", "udp:// cannot be opened on %s: %v", iface, err)
	}
	defer from.Close()
	_, to, err := open()
	if err != nil {
		return finding("udp", doctor.Fail, "", "udp:// cannot be opened twice on %s: %v", iface, err)
	}
	defer to.Close()
	n, err := d.roundTrip(ctx, from, to)
	caps, limits := t.Capabilities(), t.SocketLimits()
	if err != nil {
		return finding("udp", doctor.Fail, "nft list ruleset; ip route show 224.0.0.0/4", "udp on %s: received %d of %d messages: %v", iface, n, selfMessages, err)
	}
	text := fmt.Sprintf("udp on %s: received %d of %d messages in a self-test; GSO %s, GRO %s; receive buffers of %d bytes", iface, n, selfMessages, onOff(caps.GSO), onOff(caps.GRO), limits.ReceiveGranted)
	if !caps.GSO || !caps.GRO {
		return finding("udp", doctor.Warn, "ethtool -K "+iface+" tx-checksum-ip-generic on   # GSO needs checksum offload, and Linux 4.18; GRO needs Linux 5.0", "%s: without offloads each packet costs several times as much processor time", text)
	}
	return finding("udp", doctor.OK, "", "%s", text)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func freePort() (int, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port, nil
}

func finish(t transport.Transport) {
	t.Close()
	t.Poll(transport.NewBatch(1)) // completes the close
}

func (d *doctorRun) groupTest(ctx context.Context, area, rawURL string) doctor.Finding {
	sent, err := d.group(ctx, rawURL, true)
	var inUse *roce.PortInUseError
	var own *exitError
	switch {
	case err == nil:
		return finding(area, doctor.OK, "", "%s: joined as full and as send-only member, received %d of %d messages in a self-test", rawURL, sent, mckeyCount)
	case errors.As(err, &inUse) && inUse.Kernel:
		return finding(area, doctor.Info, "modprobe -r rdma_rxe", "%s cannot receive: Soft-RoCE occupies its UDP port; use rdma://", rawURL)
	case errors.Is(err, rdma.ErrNotSupported):
		return finding(area, doctor.Info, "", "%s is not possible here: %v", rawURL, err)
	case errors.As(err, &own) && own.code == exitNoGroup:
		if _, full := d.group(ctx, rawURL, false); full == nil {
			return finding(area, doctor.Warn, "", "%s: no send-only membership here (%v): publishers join as full members; the only difference is more traffic to their ports", rawURL, err)
		}
	}
	return finding(area, doctor.Fail, "", "%s: %v", rawURL, err)
}

func (d *doctorRun) group(ctx context.Context, rawURL string, sendOnly bool) (uint64, error) {
	host, err := fabricurl.OpenHost(rawURL)
	if err != nil {
		return 0, err
	}
	defer host.Close()
	m := &mckey{
		group: rdma.IPAddr(netip.MustParseAddr("239.20.255.2")), sendOnly: sendOnly, count: mckeyCount, size: mckeySize,
		timeout: d.timeout, settling: 100 * time.Millisecond, out: io.Discard,
	}
	if host.Peer == nil {
		peer := *host
		host.Peer = &peer // send to this host itself
	}
	err = m.transfer(ctx, host)
	return m.sides[0].messages, err
}
