package cli

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// mutable is a transport whose bus stops answering when mute is set, like a killed process.
type mutable struct {
	transport.Transport
	mute atomic.Bool
}

func (m *mutable) Reply(p transport.Peer, packet []byte) error {
	if m.mute.Load() {
		return nil
	}
	return m.Transport.Reply(p, packet)
}

// openOdd opens a bus named odd with a subscription of topic, and one named good with a subscription of md.x,
// which counts its messages in received.
func openOdd(t *testing.T, topic string, change func([]byte)) (url string, odd *pubsub.Bus, m *mutable, received *atomic.Int32) {
	t.Helper()
	name := strings.NewReplacer("/", "-", ",", "").Replace(t.Name())
	tr, err := mem.Open(mem.Config{Name: name, Groups: 1})
	if err != nil {
		t.Fatal(err)
	}
	m = &mutable{Transport: tr}
	if odd, err = (pubsub.Config{Name: "odd"}).OpenTransport(stubborn{m, change}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { odd.Close() })
	if _, err := odd.Handle(topic, func(pubsub.Message, error) {}); err != nil {
		t.Fatal(err)
	}
	url = "mem://" + name + "?groups=1"
	good, err := pubsub.Config{Name: "good"}.Open(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { good.Close() })
	received = new(atomic.Int32)
	if _, err := good.Handle("md.x", func(_ pubsub.Message, err error) {
		if err == nil {
			received.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return url, odd, m, received
}

// The result of pub concerns subscribers of its topic: what happens to others in the group changes
// neither its exit code nor "delivered", and they are not reported as missing.
func TestPubVerdictIsOfItsTopic(t *testing.T) {
	as := func([]byte) {}
	stuck := func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 0) } // it stays at the first packet
	loses := func(b []byte) { binary.LittleEndian.PutUint32(b[72:], 7) }
	for _, c := range []struct {
		name      string
		topic     string // of odd
		change    func([]byte)
		end       string // of odd: "falls silent", "leaves", or it stays
		code      int
		delivered bool
	}{
		{"falls silent", "md.x", as, "falls silent", exitIncomplete, false},
		{"falls silent on another topic", "md.y", as, "falls silent", exitOK, true},
		{"falls silent on a pattern", "md.>", as, "falls silent", exitIncomplete, false},
		{"falls silent on another pattern", "md.y.>", as, "falls silent", exitOK, true},
		{"leaves early", "md.x", stuck, "leaves", exitOK, false},
		{"leaves early on another topic", "md.y", stuck, "leaves", exitOK, true},
		{"gives packets up", "md.x", loses, "", exitIncomplete, false},
		{"gives packets up on a pattern", "md.>", loses, "", exitIncomplete, false},
		{"gives packets up on another topic", "md.y", loses, "", exitOK, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			url, odd, m, received := openOdd(t, c.topic, c.change)
			subscribers := "1"
			if !c.delivered {
				subscribers = "2"
			}
			stdin, typed := io.Pipe()
			defer typed.Close()
			defer odd.Close()
			p := start(t, stdin, "pub", "-v", "-json", "-t", url, "-wait", subscribers, "-silence", "300ms", "md.x")
			await(t, "odd", func() bool { return upNamed(p.stderr.String(), "odd") })
			_, _ = io.WriteString(typed, "one\n") // read when the subscribers that pub waits for are present
			m.mute.Store(c.end == "falls silent")
			if c.end == "leaves" {
				await(t, "the message", func() bool { return received.Load() == 1 }) // a bus that leaves before it misses nothing
				odd.Close()
				await(t, "its leave", func() bool { return strings.Contains(p.stderr.String(), "subscriber left") })
			}
			typed.Close()
			p.end(t, c.code)
			lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
			var sum pubSummary
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
				t.Fatal(err)
			}
			if missed := sum.Silent+sum.LeftBehind+sum.GivenUp > 0; sum.Delivered != c.delivered || missed == c.delivered {
				t.Errorf("delivered %v, want %v: %+v", sum.Delivered, c.delivered, sum)
			}
			if c.delivered && (strings.Contains(p.stderr.String(), "fanfare pub: subscriber odd") || strings.Contains(p.stdout.String(), `"silent","subscriber"`)) {
				t.Errorf("odd is reported:\n%s\n%s", p.stderr.String(), p.stdout.String())
			}
		})
	}
}

// Reports that no subscriber is left, and that one has come, concern the topic of pub, by name or by pattern.
func TestPubReportsSubscribersOfItsTopic(t *testing.T) {
	for _, topic := range []string{"md.x", "md.>"} {
		t.Run(wire.Quoted(topic), func(t *testing.T) {
			url := memURL(t) + "?groups=1"
			open := func(name, topic string) *pubsub.Bus {
				bus, err := pubsub.Config{Name: name}.Open(testContext(t), url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { bus.Close() })
				if _, err := bus.Handle(topic, func(pubsub.Message, error) {}); err != nil {
					t.Fatal(err)
				}
				return bus
			}
			other, ours := open("other", "md.y"), open("ours", topic)
			stdin, typed := io.Pipe()
			defer typed.Close()
			p := start(t, stdin, "pub", "-v", "-t", url, "-wait", "1", "md.x")
			await(t, "other", func() bool { return upNamed(p.stderr.String(), "other") })
			_, _ = io.WriteString(typed, "one\n")
			logged := func(text string) func() bool { return func() bool { return strings.Contains(p.stderr.String(), text) } }
			ours.Close()
			await(t, "the report that none is left", logged("no subscriber is left; the last was subscriber ours"))
			other.Close()
			open("third", "md.y")
			await(t, "third", func() bool { return upNamed(p.stderr.String(), "third") })
			open("fourth", topic)
			await(t, "the report that one has come", logged("a subscriber has come: subscriber fourth"))
			typed.Close()
			p.end(t, exitOK)
			if s := p.stderr.String(); strings.Contains(s, "has come: subscriber third") || strings.Count(s, "no subscriber is left") != 1 {
				t.Errorf("standard error, want no third subscriber and one line that no subscriber is left:\n%s", s)
			}
		})
	}
}
