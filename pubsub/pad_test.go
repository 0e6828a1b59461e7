package pubsub

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// lengths records the longest packets that a bus sent, to the group and by unicast.
type lengths struct {
	transport.Transport
	mu           sync.Mutex
	group, reply int
}

func (l *lengths) take() (group, reply int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	group, reply = l.group, l.reply
	l.group, l.reply = 0, 0
	return group, reply
}

func (l *lengths) NewSender(group int) (transport.Sender, error) {
	tx, err := l.Transport.NewSender(group)
	return lengthsSender{tx, l}, err
}

func (l *lengths) Reply(p transport.Peer, packet []byte) error {
	l.mu.Lock()
	l.reply = max(l.reply, len(packet))
	l.mu.Unlock()
	return l.Transport.Reply(p, packet)
}

type lengthsSender struct {
	transport.Sender
	l *lengths
}

func (s lengthsSender) Send(out *transport.Outbound) (int, error) {
	s.l.mu.Lock()
	for _, n := range out.Lens[:out.Count] {
		s.l.group = max(s.l.group, int(n))
	}
	s.l.mu.Unlock()
	return s.Sender.Send(out)
}

// The length of sealed packets does not depend on the size of single messages and replies; without padding it does.
// docs/protocol §27.11.
func TestSizesOfMessagesDoNotShow(t *testing.T) {
	for _, c := range []struct {
		pad   int
		seal  bool
		shows bool
	}{{0, true, false}, {1472, false, false}, {1, true, true}, {0, false, true}} {
		t.Run(fmt.Sprintf("pad %d sealed %v", c.pad, c.seal), func(t *testing.T) {
			ctx := testContext(t)
			n := mem.NewNetwork()
			var keys KeyProvider
			if c.seal {
				set, err := NewKeySet(newKey(t))
				if err != nil {
					t.Fatal(err)
				}
				keys = StaticKeys(set)
			}
			open := func() (*Bus, *lengths) {
				m, err := mem.Open(mem.Config{Network: n, PacketSize: 1472})
				if err != nil {
					t.Fatal(err)
				}
				l := &lengths{Transport: m}
				b, err := Config{Keys: keys, Pad: c.pad, Logger: quiet}.OpenTransport(l)
				if err != nil {
					t.Fatal(err)
				}
				return b, l
			}
			pubBus, asked := open()
			subBus, answered := open()
			defer subBus.Close()
			defer pubBus.Close()
			responder, err := subBus.Handle("a.b", func(m Message, err error) {
				if err == nil && m.IsRequest() {
					m.Respond(m.Data)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer responder.Close()
			pub := publisher(t, pubBus, "a.b")
			wait(t, ctx, pub, 1)
			sent, replied := map[int]bool{}, map[int]bool{}
			for _, size := range []int{500, 5, 17, 200, 333, 700, 1200} {
				answered.take()
				if r, err := pubBus.Request(ctx, "a.b", make([]byte, size)); err != nil || len(r.Data) != size {
					t.Fatalf("reply to %d bytes has %d, error %v, want the same number", size, len(r.Data), err)
				}
				group, _ := asked.take()
				_, reply := answered.take()
				sent[group], replied[reply] = true, true
			}
			if shows := len(sent) > 1; shows != c.shows {
				t.Errorf("longest packets of messages of seven sizes: %v, want more than one size: %v", sent, c.shows)
			}
			if shows := len(replied) > 1; shows != c.shows {
				t.Errorf("longest packets of replies of seven sizes: %v, want more than one size: %v", replied, c.shows)
			}
		})
	}
}

// Padding is set in one place, or equally in all URLs.
func TestPadInURL(t *testing.T) {
	for url, want := range map[string]string{
		"mem://pad?pad=0":               "from 1",
		"mem://pad?pad=x":               "from 1",
		"mem://pad?pad=65508":           "to 65507",
		"mem://pad?pad=":                "omit it for the default",
		"mem://a?pad=64 mem://b?pad=65": "another leg",
	} {
		all := strings.Fields(url)
		if b, err := (Config{Logger: quiet}).Open(testContext(t), all[0], all[1:]...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): error %v, want one containing %q", url, err, want)
			if err == nil {
				b.Close()
			}
		}
	}
	if _, err := (Config{Pad: 64, Logger: quiet}).Open(testContext(t), "mem://pad?pad=64"); err == nil || !strings.Contains(err.Error(), "leave one out") {
		t.Errorf("pad in Config and URL: error %v, want one containing \"leave one out\"", err)
	}
}
