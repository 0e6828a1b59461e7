package faults

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
)

// faults are all faults that must be reported. make produces one, and returns a function to repeat
// until it is reported; nil: none.
var faults = []struct {
	name string
	make func(w *world) (again func())
	// Texts required in each view: each is part of one line, or parts of one separated by ….
	named map[string][]string
}{
	{"a starved receive queue", func(w *world) func() { return asleep(w, "sim://"+path(w)+"?rq=16&groups=1") },
		dropped("receive_queue_empty", "WARN")},
	{"an overflowed socket", func(w *world) func() { return asleep(w, udp(w)+"&rcvbuf=16K") },
		dropped("socket_overflow", "WARN")},
	{"memory that is full", func(w *world) func() {
		url := "shm://full?dir=" + fourMiB(w)
		w.open(pubsub.Config{FlowControl: pubsub.FlowNone}, url)
		done := make(chan struct{})
		w.Cleanup(func() { close(done) })
		if _, err := w.other(pubsub.Config{}, url).Handle("x", func(pubsub.Message, error) { <-done }); err != nil {
			w.Fatal(err)
		}
		p := w.publisher(w.bus)
		if err := p.WaitSubscribers(w.ctx, 1); err != nil {
			w.Fatal(err)
		}
		return w.publish(p, 1000)
	}, dropped("no_memory", "WARN")},
	{"a lossy link", func(w *world) func() {
		url := "sim://" + path(w) + "?loss=0.05"
		w.open(pubsub.Config{}, url)
		w.read(w.bus)
		return w.publish(w.publisher(w.other(pubsub.Config{}, url)), 10)
	}, dropped("fabric", "INFO")},
	{"an injected fault", func(w *world) func() {
		url := "mem://" + path(w)
		w.open(pubsub.Config{Faults: "loss=0.05,seed=7"}, url)
		w.read(w.bus)
		return w.publish(w.publisher(w.other(pubsub.Config{}, url)), 10)
	}, dropped("injected", "INFO")},
	{"a subscriber that does not read", func(w *world) func() {
		url := udp(w)
		w.open(pubsub.Config{StallLimit: 1500 * time.Millisecond}, url)
		if _, err := w.other(pubsub.Config{Name: "sleeper"}, url).Subscribe("x"); err != nil {
			w.Fatal(err)
		}
		p := w.publisher(w.bus)
		if err := p.WaitSubscribers(w.ctx, 1); err != nil {
			w.Fatal(err)
		}
		go func() {
			for n := 1; p.Publish(w.ctx, make([]byte, 1000)) == nil; n++ {
				if n%100 == 0 { // it is released, and the others continue meanwhile
					time.Sleep(time.Millisecond)
				}
			}
		}()
		return nil
	}, map[string][]string{
		"metrics": {`fanfare_events_total{event="publisher_stalled"}`, `fanfare_events_total{event="subscriber_released"}`},
		"events":  {"publisher_stalled: publisher stalled: sleeper", "subscriber_released: subscriber released: sleeper"},
		"log":     {`level=WARN msg="a subscriber blocks the publisher: it is present but does not read" subscriber=`, "name=sleeper", `msg="a subscriber has blocked the publisher for longer than StallLimit and is released`},
		"losses":  {"subscriber_released"},

		"fanfare loss": {"event subscriber_released: Find out why sleeper"},
		"fanfare top":  {"sleeper released", "publisher_stalled", "subscriber_released"},
		"fanfare web":  {"event subscriber_released"},
	}},
	{"a stopped subscriber", func(w *world) func() {
		url := udp(w)
		w.open(pubsub.Config{}, url)
		p := w.publisher(w.bus)
		cmd := w.child("subscriber", url)
		if err := p.WaitSubscribers(w.ctx, 1); err != nil {
			w.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			w.Fatal(err)
		}
		return w.publish(p, 10)
	}, map[string][]string{
		"metrics": {`fanfare_events_total{event="subscriber_silent"}`, `fanfare_publish_receivers_silent_total{`},
		"events":  {"subscriber_silent: subscriber silent: the-subscriber"},
		"log":     {`level=WARN msg="a subscriber fell silent, and publishers no longer wait for it"`, "name=the-subscriber", "silent_for=", "behind_packets="},
		"losses":  {"subscriber_silent"},

		"fanfare loss": {"event subscriber_silent: Find out whether the-subscriber"},
		"fanfare top":  {"subscriber_silent"},
		"fanfare web":  {"event subscriber_silent"},
	}},
	{"a dead publisher", func(w *world) func() {
		url := udp(w)
		w.open(pubsub.Config{}, url)
		s := w.read(w.bus)
		cmd := w.child("publisher", url)
		w.until("the publisher has named its topic", func() bool {
			all := s.Stats().Publishers
			return len(all) == 1 && all[0].Relevant // the loss of other publishers is not recorded
		})
		if err := cmd.Process.Kill(); err != nil {
			w.Fatal(err)
		}
		return nil
	}, map[string][]string{
		"metrics": {`fanfare_events_total{event="publisher_lost"}`, `fanfare_receive_streams_lost_total{`},
		"events":  {"publisher_lost: publisher lost: the-publisher"},
		"log":     {`level=WARN msg="publisher lost: it fell silent before its end"`, "name=the-publisher"},
		"losses":  {"publisher_lost"},

		"fanfare loss": {"event publisher_lost: Find out why the-publisher"},
		"fanfare top":  {"publisher_lost"},
		"fanfare web":  {"event publisher_lost"},
	}},
	{"a leg down", func(w *world) func() {
		veth(w, "near", "far")
		w.open(pubsub.Config{}, udp(w), strings.Replace(udp(w), "iface=lo", "iface=near", 1))
		w.read(w.bus)
		w.until("both legs are up", func() bool { l := w.bus.Stats().Legs; return l[0].Up && l[1].Up })
		testenv.LinkDown(w.T, "near")
		return nil
	}, map[string][]string{
		"metrics": {`fanfare_leg_up{leg="2"} 0`, `fanfare_leg_up{leg="1"} 1`, `fanfare_events_total{event="leg_down"}`},
		"events":  {"leg_down: leg down: udp://"},
		"log":     {`level=WARN msg="a leg is lost, and another one carries all traffic: repair it before that fails, too" leg=`, "near"},
		"losses":  {"leg_down"},

		"fanfare loss": {"event leg_down: Repair udp://"},
		"fanfare top":  {"iface=near&", " false", "leg_down"},
		"fanfare web":  {"event leg_down"},
	}},
	{"an interface that is gone", func(w *world) func() {
		veth(w, "near", "far")
		w.open(pubsub.Config{}, strings.Replace(udp(w), "iface=lo", "iface=near", 1))
		w.read(w.bus)
		w.until("the group is joined", func() bool { return w.bus.Stats().Groups[0].Joined })
		testenv.DelLink(w.T, "near")
		return nil
	}, map[string][]string{
		"metrics": {`fanfare_events_total{event="group_lost"}`, `fanfare_receive_joined{group="239.20.…"} 0`},
		"events":  {"group_lost: group lost: 239.20."},
		"log":     {`level=WARN msg="membership of a group was lost, joining again" group=239.20.`, "near"},
		"losses":  {"group_lost"},

		"fanfare loss": {"event group_lost: "},
		"fanfare top":  {"group_lost"},
		"fanfare web":  {"event group_lost"},
	}},
	{"an interface that goes down under a publisher", func(w *world) func() {
		veth(w, "near", "far")
		w.open(pubsub.Config{FlowControl: pubsub.FlowNone}, strings.Replace(udp(w), "iface=lo", "iface=near", 1))
		p := w.publisher(w.bus)
		w.publish(p, 1)()
		testenv.LinkDown(w.T, "near")
		return nil // its heartbeats fail
	}, map[string][]string{
		"metrics": {`fanfare_events_total{event="cannot_send"}`, `fanfare_publish_stuck_seconds{group="239.20.…"} `},
		"events":  {cannotSend, "interface near is down"},
		"log":     {`level=WARN msg="nothing can be sent, and publishers wait`, "interface near is down"},
		"losses":  {"cannot_send"},

		"fanfare loss": {"event cannot_send: Remove the reason why ", "interface near is down"},
		"fanfare top":  {"cannot_send"},
		"fanfare web":  {"event cannot_send"},
	}},
	{"a second bus with the same name", func(w *world) func() {
		url := udp(w)
		w.open(pubsub.Config{}, url)
		w.read(w.bus)
		one := w.publish(w.publisher(w.other(pubsub.Config{Name: "feed"}, url)), 1)
		two := w.publish(w.publisher(w.other(pubsub.Config{Name: "feed"}, url)), 1)
		return func() { one(); two() }
	}, map[string][]string{
		"metrics": {`fanfare_events_total{event="duplicate_name"}`},
		"events":  {"duplicate_name: duplicate name: two buses publish as feed"},
		"log":     {`level=WARN msg="two buses publish under one name`, "name=feed"},
		"losses":  {"duplicate_name"},

		"fanfare loss": {"event duplicate_name: Give each bus a different Config.Name (pub -name): one is feed at 127.0.0.1"},
		"fanfare top":  {"duplicate_name"},
		"fanfare web":  {"event duplicate_name"},
	}},
	{"forged packets", func(w *world) func() {
		f := newForger(w)
		return func() { f.send(1<<40+f.seq*1_000_003, false) } // implausible, and all different
	}, dropped("forged", "WARN")},
	{"damaged packets", func(w *world) func() {
		f := newForger(w)
		return func() { f.send(f.seq, true) }
	}, map[string][]string{
		"metrics": {`fanfare_dropped_packets_total{cause="bad_checksum"}`, `fanfare_events_total{event="bad_packets"}`},
		"events":  {"bad_packets: bad packets: ", " at 127.0.0.1:"},
		"log":     {`level=WARN msg="packets were dropped because their checksum is missing or wrong`, "address=127.0.0.1:"},
		"losses":  {"bad_checksum"},

		"fanfare loss": {"dropped bad_checksum: "},
		"fanfare top":  {"bad_checksum", "bad_packets"},
		"fanfare web":  {"dropped bad_checksum"},
	}},
	{"a publisher that numbers wrongly", func(w *world) func() {
		f := newForger(w)
		return func() { // skips a message number
			f.number++
			f.send(f.seq, false)
		}
	}, map[string][]string{
		"metrics": {`fanfare_gaps_total{cause="misnumbered"}`, `fanfare_events_total{event="publisher_fault"}`},
		"events":  {"publisher_fault: publisher fault: "},
		"log":     {`level=WARN msg="a publisher breaks the protocol: its program is at fault…fault="message numbers are left out" topic=x`},
		"losses":  {"misnumbered", "publisher_fault"},

		"fanfare loss": {"lost misnumbered: ", "event publisher_fault: "},
		"fanfare top":  {"misnumbered", "publisher_fault"},
		"fanfare web":  {"lost misnumbered", "event publisher_fault"},
	}},
}

const cannotSend = "cannot_send: cannot send: nothing was sent for "

// dropped returns the texts for packets dropped with a cause.
func dropped(cause, level string) map[string][]string {
	return map[string][]string{
		"metrics": {`fanfare_dropped_packets_total{cause="` + cause + `"}`, `fanfare_events_total{event="packets_dropped"}`},
		"events":  {"packets_dropped: packets dropped: ", "cause " + cause},
		"log":     {"level=" + level + ` msg="packets were `, "cause=" + cause + " packets="},
		"losses":  {cause},

		"fanfare loss": {"dropped " + cause + ": "},
		"fanfare top":  {cause, "packets_dropped"},
		"fanfare web":  {"dropped " + cause},
	}
}

// Each fault is produced for real, and reported in every view with its own name and no other cause.
func TestEachFaultIsNamed(t *testing.T) {
	testenv.Slow(t)
	for _, f := range faults {
		for _, v := range views {
			if len(f.named[v.name]) == 0 {
				t.Errorf("no text for %s in fault %s", v.name, f.name)
			}
		}
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			switch f.name {
			case "a leg down", "an interface that is gone", "an interface that goes down under a publisher":
				if !testenv.Namespace(t) {
					return
				}
			default:
				t.Parallel() // the test mostly waits
			}
			w := newWorld(t)
			again := f.make(w)
			missing := ""
			for w.ctx.Err() == nil {
				w.bus.Losses() // read the counters now, not after ten seconds
				if missing = w.missing(f.named); missing == "" {
					break
				}
				if again != nil {
					again()
				}
				time.Sleep(5 * time.Millisecond)
			}
			if missing != "" {
				t.Fatal(missing)
			}
			own := f.named["metrics"][0]
			if f.named["events"][0] == cannotSend { // packets that the system refuses count, too
				own = `fanfare_dropped_packets_total{cause="unsent"}`
			}
			for _, line := range strings.Split(w.metrics(), "\n") {
				if strings.HasPrefix(line, "fanfare_dropped_packets_total{") && line != own && !strings.Contains(line, `"overrun"`) && !strings.Contains(line, `"slow_consumer"`) {
					t.Errorf("%s is also reported as %s", f.name, line)
				}
			}
		})
	}
}

// With a wrong interface opening the bus fails with an error that names it, the reason and a fix.
func TestWrongInterfaceIsNamed(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	w := newWorld(t)
	veth(w, "near", "far")
	testenv.LinkMulticast(t, "near", false)
	for iface, wants := range map[string][]string{
		"near":     {"interface near does not support multicast", "ip link set near multicast on"},
		"nowhere0": {"nowhere0", "near"},
		"far":      {"far"}, // it has no address
	} {
		_, err := pubsub.Open(w.ctx, strings.Replace(udp(w), "iface=lo", "iface="+iface, 1))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Open on interface %s fails with %v, want an error with %q", iface, err, want)
			}
		}
	}
}

// If publisher and subscriber use different interfaces, the bus and every command report it with
// both interfaces. Nothing is lost, so the loss record has no entry.
func TestOtherInterfaceIsNamed(t *testing.T) {
	testenv.Slow(t)
	t.Run("on another interface", func(t *testing.T) {
		if !testenv.Namespace(t) {
			return
		}
		w := newWorld(t)
		veth(w, "near", "far")
		url := udp(w)
		w.open(pubsub.Config{}, strings.Replace(url, "iface=lo", "iface=near", 1))
		w.read(w.other(pubsub.Config{Name: "desk", Inspect: pubsub.InspectOn}, url))
		w.publish(w.publisher(w.bus), 1)()
		named := map[string][]string{
			"metrics":      {`fanfare_events_total{event="no_subscriber_heard"}`},
			"events":       {"no_subscriber_heard: no subscriber heard: no subscriber of x was detected on near"},
			"log":          {`level=INFO msg="no subscriber detected for this bus…topics=x interface=near`},
			"fanfare loss": {"hint no_subscriber_heard: Use the same interface on both sides: iface=near or iface=lo"},
			"fanfare top":  {"unheard no subscriber of x was detected on near…desk in …subscribes on lo: the two cannot reach each other"},
			"fanfare web":  {"hint no_subscriber_heard"},
		}
		missing := "no view was checked"
		for missing != "" && w.ctx.Err() == nil {
			if missing = w.missing(named); missing != "" {
				time.Sleep(50 * time.Millisecond)
			}
		}
		if missing != "" {
			t.Fatal(missing)
		}
	})
}

// missing returns the texts that are not reported yet.
func (w *world) missing(named map[string][]string) string {
	for _, v := range views {
		text := v.show(w)
		for _, want := range named[v.name] {
			if !hasLine(text, strings.Split(want, "…")) {
				return fmt.Sprintf("%s lacks %s:\n%s", v.name, want, text)
			}
		}
	}
	return ""
}

// hasLine reports whether one line has all parts in order.
func hasLine(text string, parts []string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		found := true
		for _, part := range parts {
			_, after, ok := strings.Cut(line, part)
			line, found = after, found && ok
		}
		if found {
			return true
		}
	}
	return false
}

func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for !ok() {
		if w.ctx.Err() != nil {
			w.Fatalf("timeout waiting for: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func path(w *world) string { return strings.ReplaceAll(w.Name(), "/", "_") }

func udp(w *world) string {
	return fmt.Sprintf("udp://239.20.0.0/24?iface=lo&groups=1&port=%d", testenv.Port(w.T))
}

// veth creates a pair of interfaces that are up, the first with an address.
func veth(w *world, near, far string) {
	testenv.AddVeth(w.T, near, far, 0)
	testenv.AddAddr(w.T, near, "10.88.0.1/24")
	testenv.LinkUp(w.T, near)
	testenv.LinkUp(w.T, far)
}

// publish returns a function that publishes n messages, each in its own packet.
func (w *world) publish(p *pubsub.Publisher, n int) func() {
	return func() {
		for range n {
			if err := p.Publish(w.ctx, []byte("a message")); err != nil {
				w.Fatal(err)
			}
			if err := p.Flush(w.ctx); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// fourMiB is a directory for shared memory of that size.
func fourMiB(w *world) string {
	dir := w.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		testenv.Skip(w, "cannot mount a tmpfs: %v", err)
	}
	w.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// asleep makes the loop of a subscriber sleep while a burst arrives that overflows its queue.
func asleep(w *world, url string) func() {
	w.open(pubsub.Config{RecoveryDeadline: time.Minute}, url) // missing packets are repaired when there is room
	p := w.publisher(w.other(pubsub.Config{FlowControl: pubsub.FlowNone}, url))
	down, up := make(chan bool), make(chan bool)
	if _, err := w.bus.Handle("x", func(m pubsub.Message, _ error) {
		if string(m.Data) == "sleep" {
			down <- true
			<-up
		}
	}); err != nil {
		w.Fatal(err)
	}
	if err := p.WaitSubscribers(w.ctx, 1); err != nil {
		w.Fatal(err)
	}
	put := func(b []byte) {
		if err := p.Publish(w.ctx, b); err != nil {
			w.Fatal(err)
		}
	}
	return func() {
		put([]byte("sleep"))
		if err := p.Flush(w.ctx); err != nil {
			w.Fatal(err)
		}
		select {
		case <-down:
		case <-w.ctx.Done():
			w.Fatal("the handler was not called")
		}
		for range 200 {
			put(make([]byte, 1000))
		}
		if err := p.Flush(w.ctx); err != nil {
			w.Fatal(err)
		}
		up <- true
		put([]byte("more"))
	}
}

// forger sends packets to a group that no publisher of this program would send.
type forger struct {
	w      *world
	conn   net.Conn
	header wire.Header
	seq    uint64 // of the next packet
	number uint64 // of the next message
}

// newForger opens the bus and begins a stream that looks like a publisher's.
func newForger(w *world) *forger {
	w.open(pubsub.Config{}, udp(w))
	w.read(w.bus)
	group := w.bus.Stats().Groups[0].Address
	addr := netip.MustParseAddrPort(group)
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	f := &forger{w: w, conn: conn, header: wire.Header{GroupTag: wire.GroupTag(group), Publisher: 0x7717, Epoch: 1}}
	w.until("the stream is detected", func() bool {
		f.send(f.seq, false)
		return w.bus.Stats().Groups[0].Packets > 5
	})
	return f
}

func (f *forger) send(seq uint64, damaged bool) {
	const text = "no message"
	b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen, 1472)
	b = append(b, byte(len(text)), 0)
	b = append(b, text...)
	wire.PutDataHeader(b, f.header, 1472)
	wire.SetSeq(b, seq)
	wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, 2+len(text), wire.TopicID("x"), f.number)
	f.seq++
	f.number++
	wire.SetChecksum(b)
	if damaged {
		b[len(b)-1]++
	}
	if _, err := f.conn.Write(b); err != nil {
		f.w.Fatal(err)
	}
}
