package tap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// An interface yields each packet once, also on loopback, including statuses, which go only to the
// publisher; trains of segmentation offload are split.
func TestNamespaceInterface(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	testenv.LinkUp(t, "lo")
	testenv.RouteMulticast(t, "lo")
	src, err := OpenInterface("lo", GroupsFrom(netip.MustParseAddrPort("239.77.6.0:17500"), 4))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	const url, messages = "udp://239.77.6.0/24?iface=lo&port=17500&groups=4", 5000
	sub, err := pubsub.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	s, err := sub.Subscribe("a.b")
	if err != nil {
		t.Fatal(err)
	}
	bus, err := pubsub.Config{Name: "feed"}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	published := make(chan error, 1)
	go func() {
		p, err := bus.Publisher("a.b")
		if err == nil {
			err = p.WaitSubscribers(t.Context(), 1)
		}
		for i := 0; i < messages && err == nil; i++ {
			err = p.Publish(t.Context(), fmt.Appendf(nil, "message %d of many, of some length", i))
		}
		published <- errors.Join(err, p.Drain(t.Context()))
	}()
	received := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < messages && err == nil; i++ {
			_, err = s.Next(t.Context())
		}
		received <- err
	}()
	o := NewObserver(GroupsFrom(netip.MustParseAddrPort("239.77.6.0:17500"), 4), func(f Finding) { t.Logf("%s: %s", f.Kind, f.Text) })
	watchdog := time.AfterFunc(2*time.Minute, src.Interrupt)
	defer watchdog.Stop()
	for done := false; !done; {
		p, err := src.Next()
		if err != nil {
			t.Fatalf("capture failed: %v; %d packets lost here, skipped %v, totals %+v", err, src.Lost(), src.Skipped(), o.Totals)
		}
		o.Locate(p)
		o.Observe(p)
		for _, x := range o.Streams() {
			done = done || x.Name == "feed" && x.Messages >= messages && x.Statuses > 0 && x.Receivers == 1
		}
	}
	if err := errors.Join(<-received, <-published); err != nil {
		t.Fatal(err)
	}
	st := bus.Stats().Publications[0]
	for _, x := range o.Streams() {
		if x.Name == "feed" && (x.Messages != messages || x.Duplicates != 0 || x.Missing != 0 || x.Data != st.PacketsSent) {
			t.Errorf("counts %+v, want %d messages, none missing or duplicate, and %d packets", x.Counts, messages, st.PacketsSent)
		}
	}
	if o.Malformed != 0 || o.Foreign != 0 || o.OtherTag != 0 || src.Lost() != 0 {
		t.Errorf("totals %+v, %d lost here, want none malformed, foreign, of another tag or lost", o.Totals, src.Lost())
	}
}

// A capture that begins within a stream yields each packet once: the ring has frames from before
// the filter, which removes duplicates.
func TestNamespaceInterfaceWithinAStream(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	testenv.LinkUp(t, "lo")
	conn, err := net.Dial("udp", "127.0.0.1:17501") // no listener: the packets pass all the same
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	defer func() { conn.Close(); <-sent }()
	go func() {
		defer close(sent)
		for i := uint64(0); ; i++ {
			// Some writes fail with ICMP errors.
			if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, i)); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	for range 20 {
		src, err := OpenInterface("lo", GroupsFrom(netip.MustParseAddrPort("239.77.6.0:17501"), 4))
		if err != nil {
			t.Fatal(err)
		}
		watchdog := time.AfterFunc(2*time.Minute, src.Interrupt)
		received := make(map[string]bool)
		for range 500 {
			p, err := src.Next()
			if err != nil {
				t.Fatal(err)
			}
			if received[string(p.Data)] {
				t.Errorf("%x came twice, as packet %d", p.Data, len(received))
				break
			}
			received[string(p.Data)] = true
		}
		watchdog.Stop()
		src.Close()
	}
}

// The filter of an interface passes everything that the reader of a file supports, and nothing else.
func TestFilterPassesSupportedFrames(t *testing.T) {
	filter, err := bpf.NewVM(relevantFrames(false))
	if err != nil {
		t.Fatal(err)
	}
	passes := func(frame []byte) bool {
		t.Helper()
		n, err := filter.Run(frame)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	for name, c := range tunnels(dataPacket(1, 0)) {
		if c.link == linkEthernet && !passes(c.frame) {
			t.Errorf("the socket's filter drops %s", name)
		}
	}
	tcp := ethernet(0x0800, build(outer(layers.IPProtocolTCP)))
	for name, frame := range map[string][]byte{"TCP": tcp, "ARP": ethernet(0x0806, tcp[14:]), "LLDP": ethernet(0x88cc, tcp[14:]), "a frame that is too short": tcp[:13]} {
		if passes(frame) {
			t.Errorf("the socket's filter passes %s", name)
		}
	}
}

// A tunnel is captured at an interface as from a file.
func TestNamespaceInterfaceWithTunnel(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	testenv.LinkUp(t, "lo")
	src, err := OpenInterface("lo", testGroups)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	watchdog := time.AfterFunc(2*time.Minute, src.Interrupt)
	defer watchdog.Stop()
	want := dataPacket(1, 0)
	conn, err := net.Dial("ip4:gre", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(append([]byte{0, 0, 8, 0}, udp4("10.0.0.7:40000", group0, want)...)); err != nil {
		t.Fatal(err)
	}
	p, err := src.Next()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.Data, want) || p.From != "10.0.0.7:40000" {
		t.Errorf("%v > %v, %d bytes, want %d, skipped %v", p.From, p.To, len(p.Data), len(want), src.Skipped())
	}
}

// An interface that cannot be captured yields an error.
func TestInterfaceThatIsNone(t *testing.T) {
	if _, err := OpenInterface("nowhere0", testGroups); err == nil || !strings.Contains(err.Error(), `no network interface is named "nowhere0"`) {
		t.Error(err)
	}
}
