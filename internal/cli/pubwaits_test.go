package cli

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// stubborn is a transport whose bus answers publishers by statuses that are changed.
type stubborn struct {
	transport.Transport
	change func(status []byte)
}

func (s stubborn) Reply(p transport.Peer, packet []byte) error {
	if h, err := wire.ParseHeader(packet); err == nil && h.Type == wire.TypeStatus {
		packet = bytes.Clone(packet)
		s.change(packet)
	}
	return s.Transport.Reply(p, packet)
}

// pub waits neither for ever nor silently for a subscriber that answers and never advances, or that asks for topics
// again and again, and says that something is missing only where it is.
func TestPubWaitIsBounded(t *testing.T) {
	stays := func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 0) } // it is at the first packet
	asks := func(b []byte) { b[4] |= byte(wire.FlagWantTopics) }
	const misses, gaveUp, linger = ": odd at mem://", "gave up waiting, for none has come any further for 500ms; -stall-limit says how long", "gave up waiting after 300ms; -linger says how long"
	for _, c := range []struct {
		name   string
		change func([]byte)
		flags  []string
		code   int
		says   string
	}{
		{"stays, -wait", stays, []string{"-wait", "1", "-stall-limit", "500ms"}, exitIncomplete, gaveUp + misses},
		{"stays, -linger", stays, []string{"-wait", "1", "-linger", "300ms"}, exitIncomplete, linger + misses},
		{"asks, -wait", asks, []string{"-wait", "1", "-stall-limit", "500ms"}, exitOK, "all subscribers have everything; not confirmed the end: odd"},
		{"asks, -linger", asks, []string{"-wait", "1", "-linger", "300ms"}, exitOK, "all subscribers have everything; not confirmed the end: odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			name := strings.NewReplacer("/", "-", ",", "").Replace(t.Name())
			m, err := mem.Open(mem.Config{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			bus, err := pubsub.Config{Name: "odd"}.OpenTransport(stubborn{m, c.change})
			if err != nil {
				t.Fatal(err)
			}
			defer bus.Close()
			if _, err := bus.Handle("md.x", func(pubsub.Message, error) {}); err != nil {
				t.Fatal(err)
			}
			r := runWith(testContext(t), "one\n", append(append([]string{"pub", "-t", "mem://" + name}, c.flags...), "md.x")...)
			if r.code != c.code || !strings.Contains(r.stderr, c.says) {
				t.Errorf("exit %d, want %d, and no %q in:\n%s", r.code, c.code, c.says, r.stderr)
			}
			if c.code == exitOK && strings.Contains(r.stderr, "do not have everything") {
				t.Errorf("something is said to be missing:\n%s", r.stderr)
			}
		})
	}
}

// The wait for the first subscribers has a bound, too, and its end names those that have come.
func TestPubWaitForFirstIsBounded(t *testing.T) {
	t.Parallel() // it waits most of the time
	url := memURL(t)
	bus, err := pubsub.Config{Name: "early"}.Open(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Handle("md.x", func(pubsub.Message, error) {}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ topic, says string }{
		{"md.x", "none has come for 500ms (-stall-limit says how long); there: early at mem://"},
		{"md.y", "none has come for 500ms (-stall-limit says how long); there: none: 0 of 2 are present"},
	} {
		r := runWith(testContext(t), "one\n", "pub", "-t", url, "-wait", "2", "-stall-limit", "500ms", c.topic)
		if r.code != exitIncomplete || !strings.Contains(r.stderr, c.says) {
			t.Errorf("exit %d, want %d, and no %q in:\n%s", r.code, exitIncomplete, c.says, r.stderr)
		}
	}
}
