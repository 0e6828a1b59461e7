package topics

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// namesIn describes the runs of each packet: topic names with = and the number, the number of the first message,
// fragments, and of an index round [since, * for all topics and the answered receivers, and ]topics at its end.
func namesIn(t *testing.T, packets []packet) string {
	t.Helper()
	var out []string
	for _, p := range packets {
		d, err := wire.ParseData(p.b)
		if err != nil {
			t.Fatal(err)
		}
		var runs []string
		for rest := d.Runs; ; {
			r, more, ok := wire.NextRun(rest)
			if !ok {
				break
			}
			rest = more
			switch r.Kind {
			case wire.RunTopic:
				if r.Topic != wire.TopicID(string(r.Body)) {
					t.Errorf("the name %q has the id of another topic", r.Body)
				}
				runs = append(runs, string(r.Body[:1])+"="+string(rune('0'+r.Number)))
			case wire.RunIndex:
				text := fmt.Sprint("]", r.Number)
				if r.Body[0]&byte(wire.IndexBegins) != 0 {
					text = fmt.Sprint("[", r.Number, strings.Repeat("*", int(r.Body[0]&byte(wire.IndexAll))>>2))
				}
				for b := r.Body[wire.IndexHeaderLen:]; len(b) > 0; b = b[wire.IndexEntryLen:] {
					text += fmt.Sprint(" ", binary.LittleEndian.Uint64(b))
				}
				runs = append(runs, text)
			case wire.RunFragment:
				runs = append(runs, "fragment")
			default:
				runs = append(runs, string(rune('0'+r.Number)))
			}
		}
		out = append(out, strings.Join(runs, " "))
	}
	return strings.Join(out, ", ")
}

// A topic's name is in the stream before its first message, whatever the writer, and not again once
// it has its sequence. docs/protocol §2.19, §10.8.
func TestNameBeforeFirstMessage(t *testing.T) {
	long := strings.Repeat("l", wire.MaxTopicName)
	for _, c := range []struct {
		name string
		do   func(b *bench)
		want string
	}{
		{"two topics", func(b *bench) {
			x, y := b.topic("x"), b.topic("y")
			b.put(x, 10)
			b.put(y, 10)
			b.put(x, 10)
			b.m.Assign(b.now, b.w, true)
			b.put(y, 10)
		}, "x=0 0 y=0 0 1, 1"},
		{"a name that does not fit", func(b *bench) {
			b.put(b.topic("x"), 200)
			b.put(b.topic(long), 50)
		}, "x=0 0, l=0 0"},
		{"a message that does not fit after its name", func(b *bench) {
			b.put(b.topic("x"), b.m.MaxInPacket())
		}, "x=0, 0"},
		{"a message in fragments", func(b *bench) {
			b.fragments(b.topic("x"), 500)
		}, "x=0 fragment, fragment"},
		{"fragments after another topic's message", func(b *bench) {
			b.put(b.topic("y"), 10)
			b.fragments(b.topic("x"), 100)
			b.put(b.topic("x"), 10)
		}, "y=0 0 x=0 fragment 1"},
		{"two writers, the second one first", func(b *bench) {
			x := b.topic("x")
			other := b.m.NewWriter()
			b.s.Grant(other.Packets)
			b.put(x, 10)
			other.Append(x, make([]byte, 20))
			b.m.Assign(b.now, other, true)
			b.m.Assign(b.now, b.w, true)
			other.Append(x, make([]byte, 20))
			b.m.Assign(b.now, other, true)
		}, "x=0 0, x=1 1, 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nil)
			c.do(b)
			b.m.Assign(b.now, b.w, true)
			if got := namesIn(t, of(wire.TypeData, b.next())); got != c.want {
				t.Errorf("packets %q, want %q", got, c.want)
			}
		})
	}
}

// Another writer that names the topic meanwhile adds nothing between fragments.
func TestNothingBetweenFragments(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	b.s.Grant(b.w.Packets)
	msg := make([]byte, 1100)
	at := b.w.AppendFragment(x, msg, 0, 0)
	other := b.m.NewWriter()
	b.s.Grant(other.Packets)
	other.Append(x, msg[:10])
	for at < len(msg) {
		at = b.w.AppendFragment(x, msg, at, 0)
	}
	b.m.Assign(b.now, b.w, true)
	b.m.Assign(b.now, other, true)
	if got, want := namesIn(t, of(wire.TypeData, b.next())), "x=0 fragment, fragment, fragment, x=1 1"; got != want {
		t.Errorf("packets %q, want %q", got, want)
	}
}

// fragments appends a message of n bytes in fragments.
func (b *bench) fragments(x *Topic, n int) {
	b.t.Helper()
	msg := make([]byte, n)
	for at, tries := 0, 0; at < n; tries++ {
		next := b.w.AppendFragment(x, msg, at, 0)
		if next == at {
			b.m.Assign(b.now, b.w, false)
			b.s.Grant(b.w.Packets)
		}
		if at = next; tries > 20 {
			b.t.Fatal("no room for a message in fragments")
		}
	}
}

// A topic is named again when receivers may have forgotten it. It is forgotten if it has no user, and its messages have
// left the window: then it returns with a higher number. A round says so. docs/protocol §10.8, §10.9.
func TestForgottenTopics(t *testing.T) {
	b := newBench(t, func(c *reliable.SenderConfig) { c.Flow = reliable.NoFlow{} })
	b.m.Forget(128)
	kept := b.topic("kept")
	say := func(name string) string {
		x := b.topic(name)
		b.put(x, 10)
		b.m.Assign(b.now, b.w, true)
		b.m.Release(x)
		return namesIn(b.t, of(wire.TypeData, b.next()))
	}
	others := func(n int) {
		for i := range n {
			say(fmt.Sprint("other", i, b.m.topics.runs))
		}
	}
	if got := say("kept") + ", " + say("x"); got != "k=0 0, x=0 0" {
		t.Fatal(got)
	}
	others(64)
	if got := say("kept") + ", " + say("x"); got != "1, 1" {
		t.Errorf("after 64 topic runs: %s, want no names", got)
	}
	others(64)
	next := wire.Returning
	if got := say("kept"); got != "k=2 2" {
		t.Errorf("after 128 topic runs: %s, want the topic's name again", got)
	}
	if x := b.topic("x"); kept.Next() != 3 || x.Next() != uint64(next) || b.m.Topics() > 128+8 {
		t.Errorf("next numbers %d and %d of %d topics, want 3 and %d", kept.Next(), x.Next(), b.m.Topics(), next)
	}
	b.question("1 1 0 +")
	round, end := "", fmt.Sprint("]", b.m.Topics(), " ", b.m.topics.floor)
	for n := 0; n < 1000 && (round == "" || b.m.index.phase != indexIdle); n++ {
		round += b.indexed()
		b.now = b.now.Add(time.Millisecond)
	}
	if !strings.HasSuffix(round, end) || b.m.topics.floor == 0 {
		t.Errorf("round %s, want one that ends with %s", round, end)
	}
	for i := range 300 { // without a message
		b.m.Release(b.topic(fmt.Sprint("none", i)))
	}
	runs, stated := b.m.topics.runs, kept.stated
	others(300)
	if kept.stated != stated || runs == stated {
		t.Errorf("the round at %d counts as the topic's last name, of %d", runs, kept.stated)
	}
	if b.m.Topics() > 128+8 || len(b.m.topics.byID) != b.m.Topics() {
		t.Errorf("%d topics, %d ids, want few", b.m.Topics(), len(b.m.topics.byID))
	}
}
