package lab

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostMessages and hostRate are the number of messages of each run of TestTwoHosts, and their rate.
// At a higher rate the capture would lose packets.
var (
	hostMessages = flag.Int("lab.hostmessages", 20000, "messages that TestTwoHosts publishes")
	hostRate     = flag.Int("lab.hostrate", 20000, "messages a second that TestTwoHosts publishes; 0: no limit")
	seed         = flag.Uint64("lab.seed", 1, "seed of the losses of TestTwoHosts's cable")
)

// Two hosts, which are network namespaces, have a cable between them that loses datagrams in both directions: "fanfare
// pub" on one and "fanfare sub" on the other one over RoCEv2 in user space transfer every byte. Wireshark's dissector
// accepts every packet on the cable as InfiniBand. It shows the ICRC but does not verify it: the shown value must be
// that computed here. This needs no VM.
func TestTwoHosts(t *testing.T) {
	Need(t)
	if os.Getuid() != 0 {
		t.Fatal("network namespaces for two hosts require root")
	}
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), *hostMessages)
	for _, c := range []struct {
		name string
		mtu  int
		url  string
		loss float64
	}{
		{"no loss", 1500, "roce://eth0", 0},
		{"1 % loss", 1500, "roce://eth0", 0.01},
		{"10 % loss", 1500, "roce://eth0", 0.1},
		{"10 % loss, MTU 4200", 4200, "roce://eth0", 0.1},
		{"10 % loss, unprivileged checks", 1500, "roce://eth0?check=udp", 0.1},
		{"10 % loss, without trains", 1500, "roce://eth0?gso=off&gro=off", 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, wire := newHosts(t, c.mtu, c.loss)
			capture := b.capture(t, filepath.Join(t.TempDir(), "wire.pcap"))
			sub := b.start(t, dir, "./fanfare", "sub", "-until", "end", "-json", "-t", c.url, "-framing", "itch", "-o", "got", "md.lab")
			pub := a.start(t, dir, "./fanfare", "pub", "-json", "-t", c.url, "-framing", "itch", "-file", "feed", "-rate", fmt.Sprint(*hostRate), "-wait", "1", "md.lab")
			pub.wait(t)
			sub.wait(t)
			file := capture.end(t)
			there, back := wire.end(t)
			p, s := wantComplete(t, dir, "got", pub.out.String(), sub.out.String())
			trains, lost := checkDissector(t, file, a.addr, b.addr)
			if c.loss == 0 {
				checkFindsDamage(t, file)
			}
			if (trains == 0) != strings.Contains(c.url, "gso=off") {
				t.Errorf("%d packets were in a train after its first one", trains)
			}
			switch {
			case c.loss == 0:
				if there+back+lost != 0 {
					t.Errorf("the cable lost %d and %d datagrams, %d are missing, want none", there, back, lost)
				}
			case there == 0 || lost == 0 || lost > there || s.Repaired == 0 || p.Repairs == 0 || c.loss > 0.05 && back == 0:
				t.Errorf("the cable lost %d and %d datagrams, of the former %d are missing; publisher %+v, subscriber %+v", there, back, lost, p, s)
			}
			t.Logf("the cable lost %d datagrams of the publisher and %d of the subscriber (-lab.seed %d)\n%+v\n%+v", there, back, *seed, p, s)
		})
	}
}

// checkDissector compares Wireshark's output for each RoCEv2 packet with the expected one. It returns how many packets
// have an identification other than 0: those of trains, whose ICRC was computed for it. It also returns how many of
// the publisher's packets are missing, by sequence number.
func checkDissector(t *testing.T, file, pub, sub string) (trains, lost int) {
	t.Helper()
	_, packets, roce := readCapture(t, file)
	data, replies := 0, 0
	for _, p := range roce {
		if binary.BigEndian.Uint16(p.Header[4:]) != 0 {
			trains++
		}
		switch {
		case p.Src.String() == pub && p.Dst.IsMulticast():
			data++
		case p.Src.String() == sub && p.Dst.String() == pub:
			replies++
		}
	}
	if data == 0 || replies == 0 {
		t.Fatalf("%d packets of the publisher and %d replies to it were captured, want some of both", data, replies)
	}
	if bad := complaints(t, file, roce); len(bad) > 0 {
		t.Errorf("%d of %d packets are wrong, the first:\n%s", len(bad), len(roce), bad[0])
	}
	t.Logf("checked %d packets of the publisher, %d of them within trains, and %d replies", data, trains, replies)
	lost, _ = Sequence(Datagrams(packets, pub, ""))
	return trains, lost
}

// readCapture reads a file and returns its bytes, its packets, and those that are RoCEv2.
func readCapture(t *testing.T, file string) (wire []byte, packets, roce []Packet) {
	t.Helper()
	wire, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if packets, err = parseCapture(wire); err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if p.Protocol == protoUDP && binary.BigEndian.Uint16(p.Payload[2:]) == rocePort {
			roce = append(roce, p)
		}
	}
	return wire, packets, roce
}

// checkFindsDamage verifies that the checks can fail: for a packet with a flipped bit in its
// payload, and one truncated within its headers, with matching lengths.
func checkFindsDamage(t *testing.T, file string) {
	t.Helper()
	wire, _, roce := readCapture(t, file)
	flipped := bytes.Clone(wire)
	at := bytes.Index(flipped, roce[0].Payload)
	flipped[at+8+20] ^= 1
	broken := filepath.Join(t.TempDir(), "flipped.pcap")
	if err := os.WriteFile(broken, flipped, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, changed := readCapture(t, broken)
	if bad := complaints(t, broken, changed); len(bad) != 1 {
		t.Errorf("a damaged packet causes %d complaints, want 1", len(bad))
	}
	if err := os.WriteFile(broken, truncated(wire, &roce[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if bad := tshark(t, broken, "-Y", complaint); bad == "" {
		t.Error("Wireshark does not report a packet that ends within its headers")
	}
}

// complaints returns the wrong packets: those that Wireshark does not accept as InfiniBand
// datagrams, reports as invalid, or shows with a wrong ICRC.
func complaints(t *testing.T, file string, roce []Packet) (bad []string) {
	t.Helper()
	if out := tshark(t, file, "-Y", complaint); out != "" {
		bad = strings.Split(strings.TrimSpace(out), "\n")
	}
	out := tshark(t, file, "-Y", fmt.Sprintf("udp.dstport == %d", rocePort), "-T", "fields",
		"-e", "infiniband.bth.opcode", "-e", "infiniband.bth.tver", "-e", "infiniband.deth.srcqp", "-e", "infiniband.invariant.crc")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(roce) {
		t.Fatalf("tshark lists %d packets, want %d", len(lines), len(roce))
	}
	for i, line := range lines {
		p := &roce[i]
		b := p.Payload[8:]
		// Wireshark prints the bytes in packet order.
		want := fmt.Sprintf("100\t0\t0x%08x\t0x%08x", be24(b[17:]), binary.BigEndian.Uint32(binary.LittleEndian.AppendUint32(nil, icrc(p))))
		if line != want {
			bad = append(bad, fmt.Sprintf("packet %d from %v to %v: tshark prints %q, want %q", i, p.Src, p.Dst, line, want))
		}
	}
	return bad
}

// truncated returns a capture of only the packet, with 14 bytes after the UDP header: a BTH, and 2 bytes of the DETH.
func truncated(wire []byte, p *Packet) []byte {
	const keep = 14
	at := bytes.Index(wire, append(bytes.Clone(p.Header), p.Payload...)) - 14
	frame := bytes.Clone(wire[at : at+14+len(p.Header)+8+keep])
	ip := frame[14:]
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[len(p.Header)+4:], 8+keep)
	record := make([]byte, 16)
	binary.LittleEndian.PutUint32(record[8:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(record[12:], uint32(len(frame)))
	return append(append(bytes.Clone(wire[:24]), record...), frame...)
}

// host is a network namespace with an interface eth0.
type host struct{ ns, addr string }

// newHosts creates two hosts and the cable between them. Trains are cut into packets before the cable, as by a NIC.
func newHosts(t *testing.T, mtu int, loss float64) (a, b *host, wire *cable) {
	t.Helper()
	a = &host{fmt.Sprintf("fanfare-a-%d", os.Getpid()), "10.98.0.1"}
	b = &host{fmt.Sprintf("fanfare-b-%d", os.Getpid()), "10.98.0.2"}
	between := fmt.Sprintf("fanfare-w-%d", os.Getpid())
	for _, ns := range []string{a.ns, b.ns, between} {
		ip(t, "netns", "add", ns)
		t.Cleanup(func() { ip(t, "netns", "del", ns) })
	}
	for i, h := range []*host{a, b} {
		end := cableEnds[i]
		ip(t, "-n", h.ns, "link", "add", "eth0", "mtu", fmt.Sprint(mtu), "type", "veth", "peer", "name", end, "mtu", fmt.Sprint(mtu), "netns", between)
		ip(t, "-n", between, "link", "set", end, "up")
		ip(t, "-n", h.ns, "link", "set", "lo", "up")
		ip(t, "-n", h.ns, "addr", "add", h.addr+"/24", "dev", "eth0")
		ip(t, "-n", h.ns, "link", "set", "eth0", "gso_max_segs", "1", "up")
	}
	return a, b, newCable(t, between, loss)
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v failed: %v %s", args, err, out)
	}
}

// program is a program running on a host.
type program struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	file string // of a capture: its file
}

func (h *host) start(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command("ip", append([]string{"netns", "exec", h.ns}, args...)...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil { // the test has failed
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *program) wait(t *testing.T) {
	t.Helper()
	limit := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer limit.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("the command %v failed: %v\n%s", p.cmd.Args[4:], err, p.out.Bytes())
	}
}

// capture starts a capture of the host's interface, in both directions.
func (h *host) capture(t *testing.T, file string) *program {
	t.Helper()
	p := h.start(t, filepath.Dir(file), "tshark", "-q", "-i", "eth0", "-B", "64", "-F", "pcap", "-w", file, "-f", "udp")
	p.file = file
	for range 600 { // the file has a header once the capture has begun
		if st, err := os.Stat(file); err == nil && st.Size() >= 24 {
			return p
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	t.Fatalf("tshark did not begin to capture:\n%s", p.out.Bytes())
	return nil
}

// end ends the capture and returns its file.
func (p *program) end(t *testing.T) string {
	t.Helper()
	time.Sleep(500 * time.Millisecond) // the last packets are still being written to the file
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
	return p.file
}
