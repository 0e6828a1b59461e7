package topics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type refusals struct{ messages int }

func (*refusals) Dropped()             {}
func (*refusals) Unwanted(uint64, int) {}
func (r *refusals) Refused(n int)      { r.messages += n }

// Refused messages are counted and reported once. They are no gap: neither in messages nor in topic runs, nor when the topic
// is trusted again. docs/protocol §29.8.
func TestReaderTrust(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		refused, reports   int
	}{
		{"trusted", "m0 m1 t2 e", "0 1", 0, 0},
		{"refused from the first message", "-m0 m1 t2 e", "", 2, 1},
		{"a topic run of a refused topic", "m0 - t5 e", "0", 0, 0},
		{"refused, then trusted again", "m0 -m1 m2 +m3 m4", "0 3 4", 2, 1},
		{"refused twice", "m0 -m1 +m2 -m3 +m4", "0 2 4", 2, 2},
		{"a topic run while refused, then trusted again", "m0 -m1 t2 +m2", "0 2", 1, 1},
		{"a topic run while refused, before messages", "m0 -t1 m1 m2 +m3", "0 3", 2, 1},
		{"a message in progress when trusted again", "m0 - l1 +c2 m3", "0 unknown 3", 0, 0},
		{"a loss while refused", "m0 -m1 l1 +m3", "0 unknown 3", 1, 1},
		{"a reported loss before the refusal", "m0 l1 t2 -m2 +m3", "0 gap:1+1 unknown 3", 1, 1},
		{"a fragment", "f0 -f1 +m2", "0 2", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			trust, tally, reports := &allows{topics: "x"}, new(refusals), 0
			r := NewReader(0, 1<<20)
			r.Trust(7, func() TopicTrust { return trust })
			r.Count(tally)
			r.OnFault(func(err *events.FaultError) {
				if err.Fault != events.FaultTopic || err.Topic != "x" {
					t.Errorf("fault %v of topic %q, want %v of x", err, err.Topic, events.FaultTopic)
				}
				reports++
			})
			id := wire.TopicID("x")
			r.Want(id, "x", nil)
			var got []string
			drain := func() {
				var it Item
				for r.Next(&it) {
					switch {
					case it.Unknown:
						got = append(got, "unknown")
					case it.Gap():
						got = append(got, fmt.Sprintf("gap:%d+%d", it.Number, it.Lost))
					default:
						got = append(got, fmt.Sprint(it.Number))
					}
				}
			}
			for _, step := range strings.Fields(c.script) {
				if step[0] == '-' {
					trust, step = new(allows), step[1:]
				} else if step[0] == '+' {
					trust, step = &allows{topics: "x"}, step[1:]
				}
				if step == "" {
					r.Packet(nil)
					continue
				}
				n := uint64(0)
				fmt.Sscan(step[1:], &n)
				switch step[0] {
				case 'm':
					r.Packet(messageRun(id, n))
				case 'f':
					r.Packet(fragmentRun(id, n))
				case 'c':
					r.Packet(fragment(id, n, 30, 20, 10))
				case 'l':
					r.Skip(1, n, events.CauseGone)
				case 't':
					r.Packet(stated(nil, id, "x", n))
				case 'e':
					r.End()
				}
				drain()
			}
			if strings.Join(got, " ") != c.want || tally.messages != c.refused || reports != c.reports {
				t.Errorf("items %q, %d refused, %d reports, want %q, %d, %d", got, tally.messages, reports, c.want, c.refused, c.reports)
			}
		})
	}
}

// A refused topic with a first number begins with its next message when it is trusted again. Refused messages are no
// gap. docs/protocol §29.8.
func TestRefusedTopicWithANumber(t *testing.T) {
	trust := new(allows)
	r, id := NewReader(9, 1<<20), wire.TopicID("x")
	r.Trust(7, func() TopicTrust { return trust })
	r.Want(id, "x", nil)
	r.From(id, 3)
	r.Packet(messageRun(id, 4))
	got := items(r)
	trust = &allows{topics: "x"}
	r.Packet(messageRun(id, 5))
	if got = append(got, items(r)...); len(got) != 1 || got[0] != "x:5" {
		t.Errorf("items %q, want x:5, the first trusted message", got)
	}
}

func messageRun(topic, number uint64) []byte {
	b := make([]byte, wire.RunHeaderLen+wire.MessageHeaderLen+1)
	wire.PutRun(b, topic, []byte{byte(number)})
	wire.SetRunNumber(b, number)
	return b
}

func fragmentRun(topic, number uint64) []byte {
	b := make([]byte, wire.RunHeaderLen+wire.FragmentHeaderLen+1)
	wire.PutRunHeader(b, wire.RunFragment, wire.FragmentHeaderLen+1, topic, number)
	wire.PutFragmentHeader(b[wire.RunHeaderLen:], 1, 0)
	return b
}
