package cli

import (
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// forger sends forged packets to the group of a topic.
type forger struct {
	t      *testing.T
	conn   *net.UDPConn
	header wire.Header
}

func newForger(t *testing.T, url, topic string) *forger {
	t.Helper()
	bus, err := pubsub.Open(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Subscribe(topic); err != nil {
		t.Fatal(err)
	}
	group := bus.Stats().Groups[0].Address
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(group)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &forger{t, conn, wire.Header{GroupTag: wire.GroupTag(group), Publisher: 0x7717, Epoch: 1}}
}

func (s *forger) send(b []byte) {
	s.t.Helper()
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatal(err)
	}
}

// data sends a packet with one run of messages.
func (s *forger) data(seq uint64, topic string, number uint64, messages ...string) {
	s.t.Helper()
	b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen, 1472)
	wire.PutDataHeader(b, s.header, 1472)
	wire.SetSeq(b, seq)
	for _, m := range messages {
		b = append(b, byte(len(m)), 0)
		b = append(b, m...)
	}
	wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, len(b)-wire.DataHeaderLen-wire.RunHeaderLen, wire.TopicID(topic), number)
	s.send(b)
}

// rename sends a packet that gives the topic's id another name.
func (s *forger) rename(seq uint64, topic string, number uint64, name string) {
	s.t.Helper()
	b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+len(name))
	wire.PutDataHeader(b, s.header, 1472)
	wire.SetSeq(b, seq)
	wire.PutTopicRun(b[wire.DataHeaderLen:], wire.TopicID(topic), name)
	wire.SetRunNumber(b[wire.DataHeaderLen:], number)
	s.send(b)
}

// heartbeat announces the publisher's name and its number of groups.
func (s *forger) heartbeat(epoch events.ID, at, seq uint64, groups uint32, name string) {
	s.t.Helper()
	h := s.header
	h.Epoch = epoch
	s.send(wire.AppendHeartbeat(nil, h, &wire.Heartbeat{SentAt: at, PacketSize: 1472, Interval: 100 * time.Millisecond, StatusInterval: time.Second, Lead: seq,
		Name: []byte(name), Settings: wire.Settings{Groups: groups}}))
}

// Names received from the network are escaped in all output, so that terminals do not interpret them.
func TestNamesFromTheWireAreQuoted(t *testing.T) {
	const evil = "\x1b[31mred\u009b2J\r\n"
	const name, twin = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ" // both have the same id: docs/vectors/hashes.json
	url := loopbackURL(t)
	text := start(t, nil, "sub", "-until", "end", "-t", url, "-v", name)
	lines := start(t, nil, "sub", "-until", "end", "-t", url, "-v", "-json", name)
	both := []*running{text, lines}
	from := newForger(t, url, name)
	seq := uint64(0)
	for ; !strings.Contains(text.stdout.String(), "hello") || !strings.Contains(lines.stdout.String(), "hello"); seq++ {
		from.data(seq, name, seq, "hello") // until both have subscribed
		time.Sleep(2 * time.Millisecond)
	}
	number := seq
	await(t, "the report of the collision", func() bool {
		from.rename(seq, name, number, evil) // a name of no topic: counted, not shown
		from.rename(seq+1, name, number, twin)
		seq += 2
		return strings.Contains(text.stderr.String(), "same id") && strings.Contains(lines.stdout.String(), `"collision"`)
	})
	at := uint64(time.Millisecond)
	await(t, "the reports of the publisher's name and configuration", func() bool {
		at += uint64(time.Millisecond)
		from.heartbeat(1, at, 1, 16, evil)
		from.heartbeat(2, at, 0, 64, evil)
		all := text.stderr.String() + "\n" + lines.stderr.String()
		return strings.Count(all, "groups 64 there") >= 2 && strings.Contains(all, "red") && strings.Contains(lines.stdout.String(), `"mismatch"`) && strings.Contains(lines.stdout.String(), "red")
	})
	for _, r := range both {
		r.cancel(nil)
		<-r.done
		for _, out := range []string{r.stdout.String(), r.stderr.String()} {
			if i := strings.IndexAny(out, "\x1b\u009b\r"); i >= 0 {
				t.Errorf("not escaped: %q", out[max(0, i-60):min(len(out), i+60)])
			}
		}
	}
	for _, line := range strings.Split(lines.stdout.String(), "\n") {
		var c jsonNotice
		if strings.Contains(line, `"collision"`) && (json.Unmarshal([]byte(line), &c) != nil || c.Other != twin) {
			t.Errorf("line %s: other is %q, want %q", line, c.Other, twin)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, §": "plain text, §", "\x1b[2J": `\x1b[2J`, "a\u009bb": `a\u009bb`, "\xff\x9b": `\xff\x9b`, "\u202eabc": `\u202eabc`, "": "",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) is %q, want %q", in, got, want)
		}
	}
}
