package lab

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// publishedStream are the properties of a stream on the wire that are the same for all publishers:
// verbs or RoCE in user space.
type publishedStream struct {
	Constants  string // values of BTH and DETH, see Datagram
	PacketSize int    // according to the packets
	Largest    int    // bytes of payload
	GroupTag   uint32
	Flags      wire.Flags // of data packets, except for repairs
	Messages   int
}

// checkPublished checks every datagram that a publisher at an address sent to groups: the ICRC, Wireshark's report,
// the RDMA MTU. Its data packets, in order, must contain the feed, message by message.
func checkPublished(t *testing.T, r *Result, from string, rdmaMTU int, feed string) (s publishedStream) {
	t.Helper()
	list := MulticastOnly(Datagrams(r.Packets(t, 1), from, ""))
	s.Largest = largest(list)
	s.Constants = fmt.Sprintf("%x", constants(list))
	if s.Largest != rdmaMTU {
		t.Errorf("the largest datagram has %d bytes, want %d", s.Largest, rdmaMTU)
	}
	packets := map[uint64][]byte{} // data packets by sequence
	for i, d := range list {
		if !d.ICRC || d.Opcode != 0x64 || d.DestQPN != 0xffffff || d.QKey != 0x01234567 {
			t.Fatalf("datagram %d: ICRC correct: %v, opcode %#x, to QPN %#x, Q_Key %#x, want true, 0x64, 0xffffff, 0x01234567", i, d.ICRC, d.Opcode, d.DestQPN, d.QKey)
		}
		h, err := wire.ParseHeader(d.Data)
		if err != nil || wire.Verify(d.Data, false) != nil {
			t.Fatalf("datagram %d is not a valid packet: %v, %v", i, err, wire.Verify(d.Data, false))
		}
		s.GroupTag = h.GroupTag
		if h.Type != wire.TypeData {
			continue
		}
		p, err := wire.ParseData(d.Data)
		if err != nil {
			t.Fatalf("datagram %d is no data packet: %v", i, err)
		}
		s.PacketSize, s.Flags = p.PacketSize, s.Flags|h.Flags&^wire.FlagRepair
		if old, ok := packets[p.Seq]; ok && !bytes.Equal(old, p.Runs) {
			t.Fatalf("packet %d was sent with different contents", p.Seq)
		}
		packets[p.Seq] = p.Runs
	}
	messages := publishedMessages(t, packets)
	s.Messages = len(messages)
	want := readFeed(t, feed)
	if len(messages) != len(want) {
		t.Errorf("%d messages were on the wire, want %d", len(messages), len(want))
	}
	for i := range min(len(messages), len(want)) {
		if !bytes.Equal(messages[i], want[i]) {
			t.Fatalf("message %d on the wire is %.16q, want %.16q", i, messages[i], want[i])
		}
	}
	filter := "ip.src==" + from + " && ip.dst==224.0.0.0/4 && udp.dstport==4791"
	decoded := strings.Fields(r.Tshark(t, 1, "-Y", filter+" && infiniband.bth.opcode==100", "-T", "fields", "-e", "frame.number"))
	if len(decoded) != len(list) {
		t.Errorf("tshark recognizes %d of %d RoCE datagrams", len(decoded), len(list))
	}
	if bad := r.Tshark(t, 1, "-Y", filter+" && ("+complaint+")"); bad != "" {
		t.Errorf("tshark reports errors in\n%s", bad)
	}
	return s
}

// publishedMessages returns the messages in packets, in order.
func publishedMessages(t *testing.T, packets map[uint64][]byte) (messages [][]byte) {
	t.Helper()
	var message []byte // collected fragments
	first := ^uint64(0)
	for seq := range packets {
		first = min(first, seq)
	}
	for i := range uint64(len(packets)) {
		runs, ok := packets[first+i]
		if !ok {
			t.Fatalf("packet %d was never on the wire, want packets %d to %d", first+i, first, first+uint64(len(packets))-1)
		}
		for {
			run, rest, ok := wire.NextRun(runs)
			if !ok {
				break
			}
			runs = rest
			if run.Kind == wire.RunTopic || run.Kind == wire.RunIndex {
				continue
			}
			if run.Kind == wire.RunFragment {
				f, err := wire.ParseFragment(run.Body)
				if err != nil || f.Offset != len(message) {
					t.Fatalf("fragment at %d after %d bytes: %v", f.Offset, len(message), err)
				}
				if message = append(message, f.Bytes...); len(message) == f.Total {
					messages, message = append(messages, message), nil
				}
				continue
			}
			for body := run.Body; ; {
				m, rest, ok := wire.NextMessage(body)
				if !ok {
					break
				}
				messages, body = append(messages, m), rest
			}
		}
	}
	return messages
}
