package pubsub

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestRoCEDamage damages some packets between two hosts (data, repairs and control) such that a UDP socket on IPv4
// cannot distinguish the damage from another IPv4 identification. The reliable layer's CRC-32C detects it, and the
// stream is repaired without an error. With the complete ICRC, on a raw socket or IPv6, the fabric already drops
// these packets.
func TestRoCEDamage(t *testing.T) {
	testenv.Slow(t)
	if !testenv.Namespace(t) {
		return
	}
	for _, c := range []struct {
		name, rest    string
		prefix        string // of the addresses
		bits          int
		fabric, layer bool // which layer refuses damaged packets
	}{
		{"IPv4 check=udp", "?gso=off&check=udp", "10.9.0.", 24, false, true},
		{"IPv4 check=full", "?gso=off&check=full", "10.9.0.", 24, true, false},
		{"IPv6 check=udp", "/ff15::20:0/112?gso=off&check=udp", "fd00:9::", 64, true, false},
	} {
		host := func(what, name, addr string) *roceProcess {
			p := startRoCE(t, testenv.NamespaceCommand(t), fmt.Sprintf("%s roce://%s%s loss=0 %s %s%s/%d", what, name, c.rest, name, c.prefix, addr, c.bits))
			p.expect("here")
			return p
		}
		sub, pub := host("sub-to-t.a", "subhost", "1"), host("t.a-to-one", "pubhost", "2")
		for name, p := range map[string]*roceProcess{"sub": sub, "pub": pub} {
			testenv.AddVeth(t, name+"wire", name+"host", 0)
			testenv.LinkUp(t, name+"wire")
			testenv.MoveLink(t, name+"host", p.cmd.Process.Pid)
		}
		wire := newDamagingWire(t, "subwire", "pubwire")
		sub.expect("ready")
		var total, fabric, layer [2]uint64
		var checked [2]bool
		for i, p := range []*roceProcess{sub, pub} {
			if _, err := fmt.Sscanf(p.expect("done"), "done %d %d %d %t", &total[i], &fabric[i], &layer[i], &checked[i]); err != nil {
				t.Fatal(err)
			}
		}
		to, from := wire.stop()
		t.Logf("%s: %d and %d packets damaged to and from the subscriber; refused by the fabric: %d and %d, by the reliable layer: %d and %d; Checked %v",
			c.name, to, from, fabric[0], fabric[1], layer[0], layer[1], checked)
		for i, damaged := range []uint64{to, from} {
			if damaged == 0 || (fabric[i] > 0) != c.fabric || (layer[i] > 0) != c.layer || fabric[i]+layer[i] > damaged || checked[i] == c.layer {
				t.Errorf("%s: of %d damaged packets the fabric refused %d and the reliable layer %d; Checked is %v", c.name, damaged, fabric[i], layer[i], checked[i])
			}
		}
		testenv.DelLink(t, "subwire")
		testenv.DelLink(t, "pubwire")
		sub.in.Close()
		pub.in.Close()
	}
}

// damagingWire connects two interfaces like a cable that damages packets.
type damagingWire struct {
	fds  [2]int // packet sockets
	quit chan struct{}
	done chan [2]uint64
}

// damageOneIn is the number of packets of which one is damaged, by sender: the subscriber sends fewer packets.
var damageOneIn = [2]int{4, 20}

func newDamagingWire(t *testing.T, to, from string) *damagingWire {
	t.Helper()
	w := &damagingWire{quit: make(chan struct{}), done: make(chan [2]uint64)}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	for i, name := range []string{to, from} {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		}
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: testenv.LinkIndex(t, name)})
		}
		if err != nil {
			testenv.Skip(t, "packet socket: %v", err)
		}
		w.fds[i] = fd
	}
	go w.run(t)
	return w
}

// run forwards packets until stop. It then sends the numbers of damaged packets to each interface, the first
// interface first.
func (w *damagingWire) run(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<16)
	var damaged [2]uint64
	for {
		poll := []unix.PollFd{{Fd: int32(w.fds[0]), Events: unix.POLLIN}, {Fd: int32(w.fds[1]), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, 10) // EINTR: the loop polls again
		select {
		case <-w.quit:
			w.done <- damaged
			return
		default:
		}
		for i, fd := range w.fds {
			for range 64 {
				n, _, err := unix.Recvfrom(fd, b, 0)
				if err != nil {
					break
				}
				if r.IntN(damageOneIn[i]) == 0 && damage(r, b[:n]) {
					damaged[1-i]++
				}
				// A packet that the other interface does not accept is lost, as on a cable.
				_, _ = unix.Write(w.fds[1-i], b[:n])
			}
		}
	}
}

func (w *damagingWire) stop() (to, from uint64) {
	close(w.quit)
	damaged := <-w.done
	for _, fd := range w.fds {
		unix.Close(fd)
	}
	return damaged[0], damaged[1]
}

// damage changes a packet of the reliable layer after its byte of flags, and reports whether the frame was such a
// packet. On IPv4 it sets the ICRC to the value for another IPv4 identification.
func damage(r *rand.Rand, frame []byte) bool {
	const ethernet, udp, bth, deth, icrc = 14, 8, 12, 8, 4
	if len(frame) < ethernet+40+udp+bth+deth+icrc {
		return false
	}
	ip, ipv4 := frame[ethernet:], false
	var u []byte // the packet from the UDP header on
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == unix.ETH_P_IP && ip[0] == 0x45 && ip[9] == unix.IPPROTO_UDP:
		u, ipv4 = ip[20:], true
	case kind == unix.ETH_P_IPV6 && ip[6] == unix.IPPROTO_UDP:
		u = ip[40:]
	default:
		return false
	}
	payload := u[udp+bth+deth:]
	if binary.BigEndian.Uint16(u[2:]) != 4791 || u[udp] != 0x64 || payload[0] != 'F' {
		return false
	}
	end := len(payload) - icrc - int(u[udp+1]>>4&3)
	for range 1 + r.IntN(3) {
		payload[5+r.IntN(end-5)] ^= byte(1 + r.IntN(255))
	}
	if !ipv4 {
		return true
	}
	id := binary.BigEndian.Uint16(ip[4:])
	covered := append(slices.Repeat([]byte{0xff}, 8), ip[:len(ip)-icrc]...)
	binary.BigEndian.PutUint16(covered[8+4:], id^uint16(1+r.IntN(1<<16-1)))
	for _, i := range []int{8 + 1, 8 + 8, 8 + 10, 8 + 11, 28 + 6, 28 + 7, 36 + 4} {
		covered[i] = 0xff
	}
	binary.LittleEndian.PutUint32(ip[len(ip)-icrc:], crc32.ChecksumIEEE(covered))
	return true
}
