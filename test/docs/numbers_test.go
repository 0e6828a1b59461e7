package docs

import (
	"fmt"
	"hash/crc32"
	"math/bits"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// Numbers in the text of protocol, and in its tables without a column "code": where they are, and their values in
// order. A value that begins with a letter is a constant of the code, +1 is one more, and a suffix is the unit used in
// the text. All others are literals, which the tests of the rules verify.
var numbers = []struct{ where, are string }{
	{`(?s)\*\*§2\.3\*\*.*?\n\n`, "wire.MinPacket wire.MaxPacket"},
	{`(?s)\*\*§2\.12\*\*.*?\n\n`, "4 4 wire.MaxMessage"},
	{`(?s)\*\*§6\.2\*\*.*?\n\n`, "reliable.maxNAK"},
	{`(?s)- b\. a back-off if.*?\n\n`, "reliable.maxBackoffTime/ms 2 1 0 1 1 1"},
	{`(?s)\*\*§6\.9\*\*.*?\n\n`, "1 8 1 4 2 4 8 reliable.minRTT/µs 5 reliable.farRTT/ms 500 reliable.startRTT/µs"},
	{`(?s)- The repetition interval is R.*?\n\n`, "4 reliable.minRetry/µs reliable.maxRetry/ms 2 reliable.farRTT/ms 400 0 2 2 1.5 100"},
	{`(?m)^\| a \| fewer than 2 bytes.*$`, "2 wire.HeaderLen"},
	{`(?m)^\| c \| a version that is not.*$`, "wire.Version"},
	{`(?m)^\| e \| type 0, 3, or above.*$`, "0 wire.unusedType wire.LastType"},
	{`(?m)^\| data \| sequence ≥.*$`, "wire.MaxSeq wire.MinPacket wire.MaxPacket wire.MaxSeq 0 wire.MaxTopicName wire.StateHeaderLen wire.IndexHeaderLen wire.IndexEntryLen wire.FragmentHeaderLen+1 wire.MaxMessage"},
	{`(?m)^\| heartbeat \| fewer.*$`, "wire.HeartbeatLen wire.MaxSeq wire.MinPacket wire.MaxPacket wire.MaxName wire.MaxLegs 1 1"},
	{`(?m)^\| NAK, NCF, gone \| fewer.*$`, "wire.MaxSeq 64 wire.MaxSeq wire.MaxSeq"},
	{`(?m)^\| status \| fewer.*$`, "0 wire.MaxStatusTopics wire.MaxTaggedTopics wire.MaxName 0 wire.MaxTag wire.MaxSeq"},
	{`(?m)^\| hello \| fewer.*$`, "wire.HelloLen wire.MaxName"},
	{`(?m)^\| reply \| fewer.*$`, "wire.ReplyHeaderLen wire.MaxSeq wire.MaxMessage 0 0"},
	{`(?m)^\| recall \| fewer.*$`, "wire.MaxSeq wire.MaxMessage"},
	{`(?s)\*\*§16\.6\*\*.*?\n\n`, "udp.defaultPacketSize udp.maxPacket"},
	{`(?s)\*\*§17\.1\*\*.*?\n\n`, "rocev2.opSend rocev2.opSendImm rdma.UDPQKey rdma.MulticastQPN"},
	{`(?s)port\s+space UDP \(.*?\)`, "rdma.PortSpaceUDP"},
	{`There are \d+ endpoints at most`, "shm.lanes"},
	{`(?m)^\| 0 \| magic 0x.*$`, "shm.atMagic shm.magic"},
	{`(?m)^\| 8, 16 \| id; process id.*$`, "shm.atID shm.atPID"},
	{`(?m)^\| 24 \| depth.*$`, "shm.atDepth 1728"},
	{`(?m)^\| 32 \| 1: the.*$`, "shm.atClosed 1"},
	{`(?m)^\| \d+ \| grows with each lane.*$`, "shm.atAssigned"},
	{`(?m)^\| \d+ \| sleep: odd.*$`, "shm.atAsleep"},
	{`(?m)^\| \d+ \| a bit for each group.*$`, "shm.atGroups 8"},
	{`(?m)^\| \d+ \+ \d+\*s\* \| id of the.*$`, "shm.atLanes 8 0"},
	{`(?m)^\| \d+ \+ \d+\*s\* \| packets that were dropped.*$`, "shm.atDropped shm.line"},
	{`(?m)^\| \d+ \+ \d+\*s\* \| positions of.*$`, "shm.atReturned shm.line"},
	{`(?m)^\| \d+ \+ \d+\*s\* \| \d+ descriptors.*$`, "shm.atRings shm.ringBytes shm.laneSlots"},
	{`(?m)^\| \d+ \+ \d+\*s\* \| \d+ positions, .*$`, "shm.atReturns shm.returnBytes shm.laneSlots 4"},
	{`(?m)^\| \d+ \+ \d+\*c\* \| chunk.*$`, "shm.atChunks shm.chunkBytes shm.chunkBytes shm.maxChunks"},
	{`The file has \d+ bytes`, "shm.fileBytes"},
	{`A descriptor has \d+ bytes`, "shm.descriptor"},
	{`A packet has \d+ bytes at most`, "shm.maxPacket"},
	{`packet size is \d+ bytes unless`, "shm.DefaultPacketSize"},
	{`(?s)the greatest that has verified by \d+ or more`, "signed.recentTrains"},
	{`(?s)than there is room for, of\s+\d+`, "signed.maxStreams"},
	{`Here: \d+/s in the name of one stream, .*?[.;]`, "signed.streamFails signed.failsPerSecond signed.unknownFails"},
	{`Here: \d+/s of each key, and .*?\.`, "signed.keyWorkPerSecond signed.workPerSecond"},
}

// aNumber matches a number. Numbers in citations of rules and documents do not count.
var (
	aNumber   = regexp.MustCompile(`2\^\d+|0x[0-9a-fA-F]+|\d+(?:\.\d+)?`)
	reference = regexp.MustCompile(`§\d+(?:\.\d+)?|RFC \d+|\bUDP/IP|\d+\*[a-z]\*`)
)

// Each number in the text agrees with the code. docs/protocol §13.3, §16.6, §28.3, §29.7.
func TestNumbersOfTheText(t *testing.T) {
	text := protocol(t)
	code := constants(t, "internal/wire", "reliable", "transport/udp", "transport/shm", "transport/signed", "rdma", "rdma/internal/rocev2")
	value := func(word string) (float64, error) {
		if strings.ContainsAny(word[:1], "0123456789") {
			return valueOf(word)
		}
		name, unit, _ := strings.Cut(strings.TrimSuffix(word, "+1"), "/")
		c, ok := code[name]
		if !ok {
			return 0, fmt.Errorf("unknown constant %s", name)
		}
		v := c.value
		if strings.HasSuffix(word, "+1") {
			v++
		}
		if unit != "" {
			v /= units[unit]
		}
		return v, nil
	}
	for _, n := range numbers {
		found := regexp.MustCompile(n.where).FindAllString(text, -1)
		if len(found) != 1 {
			t.Errorf("%s matches %d times", n.where, len(found))
			continue
		}
		plain := reference.ReplaceAllStringFunc(found[0], func(s string) string {
			if strings.HasSuffix(s, "*") { // 8*s*: the number is part of a product
				return strings.TrimRight(s[:len(s)-2], "*")
			}
			return ""
		})
		got, want := aNumber.FindAllString(plain, -1), strings.Fields(n.are)
		if len(got) != len(want) {
			t.Errorf("%q contains the numbers %q, want %q", found[0], got, want)
			continue
		}
		for i := range got {
			wantText, err := valueOf(got[i])
			is, err2 := value(want[i])
			if err != nil || err2 != nil || wantText != is {
				t.Errorf("%q states %s, but %s is %v (%v, %v)", found[0], got[i], want[i], is, err, err2)
			}
		}
	}
}

// The polynomial of the checksum, normal and reflected: docs/protocol §2.7.
func TestPolynomialOfTheText(t *testing.T) {
	m := regexp.MustCompile(`polynomial (0x\w+), reflected (0x\w+), initial value and final XOR\s+(0x\w+)`).FindStringSubmatch(protocol(t))
	if m == nil {
		t.Fatal("§2.7 states no polynomial")
	}
	// crc32.Castagnoli is reflected; the other two values are the same for all CRCs of that package.
	for i, want := range []uint32{bits.Reverse32(crc32.Castagnoli), crc32.Castagnoli, ^uint32(0)} {
		if got, err := strconv.ParseUint(m[i+1], 0, 32); err != nil || uint32(got) != want {
			t.Errorf("§2.7 states %s, the code has %#x: %v", m[i+1], want, err)
		}
	}
}

// The addresses of groups on RDMA: docs/protocol §17.2.
func TestMGIDsOfTheText(t *testing.T) {
	text := protocol(t)
	at := func(s string) rdma.Addr { return rdma.IPAddr(netip.MustParseAddr(s)) }
	for family, ip := range map[string]string{"IPv4 a.b.c.d": "239.161.178.195", "IPv6": "ff15:1:2:3:4:5:6:7"} {
		m := regexp.MustCompile(`\| InfiniBand \| ` + regexp.QuoteMeta(family) + ` \| ff1\*s\*:(\w+):\*pkey\*.*?low (\d+) bits`).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("§17.2 lacks the MGID of %s on InfiniBand", family)
			continue
		}
		low, err := strconv.Atoi(m[2])
		if err != nil || low%4 != 0 {
			t.Fatalf("%q bits: %v", m[2], err)
		}
		digits := func(b []byte) string { return fmt.Sprintf("%x", b) }
		mgid := rdma.MGIDForIB(at(ip), rdma.PortSpaceUDP, 5, 0x8001)
		got, all := digits(mgid[:]), digits(netip.MustParseAddr(ip).AsSlice())
		tail := all[len(all)-low/4:]
		want := "ff15" + m[1] + "8001" + strings.Repeat("0", max(0, 32-12-len(tail))) + tail
		if got != want {
			t.Errorf("%s on InfiniBand: §17.2 yields %s, the code %s", family, want, got)
		}
	}
	if m := regexp.MustCompile(`\| RoCE version 2 \| IPv4 a\.b\.c\.d \| (\S+?)a\.b\.c\.d \|`).FindStringSubmatch(text); m == nil {
		t.Error("§17.2 lacks the MGID of IPv4 on RoCE")
	} else if got, want := netip.AddrFrom16(rdma.MGIDForRoCE(at("239.1.2.3"), rdma.GIDTypeRoCEv2)), netip.MustParseAddr(m[1]+"239.1.2.3"); got != want {
		t.Errorf("IPv4 on RoCE: §17.2 yields %v, the code %v", want, got)
	}
	if got, want := netip.AddrFrom16(rdma.MGIDForRoCE(at("ff15::1"), rdma.GIDTypeRoCEv2)), netip.MustParseAddr("ff15::1"); got != want || !strings.Contains(text, "| RoCE version 2 | IPv6 | the address |") {
		t.Errorf("IPv6 on RoCE: %v is not the address %v, or §17.2 does not state that it is", got, want)
	}
	m := regexp.MustCompile(`IPoIB interface \((\d+) unless configured\)[^|]*\((0x\w+)\s+by default\)`).FindStringSubmatch(text)
	if m == nil || m[1] != "2" || m[2] != "0xffff" {
		t.Errorf("§17.2 has the scope and P_Key %q", m)
	}
}
