package compression

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/test/sim"
)

// real are the messages of the example's recording of a day at Nasdaq, on one topic.
func real(t *testing.T) (all []Messages) {
	t.Helper()
	b, err := os.ReadFile("../../examples/marketdata/itch/testdata/12302019_SNIPPET.NASDAQ_ITCH50")
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 2 {
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			break
		}
		all, b = append(all, Messages{"md.xnas", b[2 : 2+n]}), b[2+n:]
	}
	return all
}

// generated are those of the example's feed, on a topic for each symbol.
func generated(t *testing.T, messages uint64) (all []Messages) {
	t.Helper()
	g, err := feed.New(feed.Config{Symbols: 50, Messages: messages, Rate: 60_000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for m, ok := g.Next(); ok; m, ok = g.Next() {
		if m.Locate > 0 { // a message about a symbol
			all = append(all, Messages{"md.xnas." + g.Symbol(m.Locate), m.Append(nil)})
		}
	}
	return all
}

// With a dictionary trained on the first half, the second half of real market data, and of the feed,
// takes at most 0.45 of the bytes on the wire, and a link carries correspondingly more messages.
func TestMarketData(t *testing.T) {
	testenv.Slow(t)
	const packetSize = 1472
	for name, all := range map[string][]Messages{"real": real(t), "generated": generated(t, 40_000)} {
		half := len(all) / 2
		dict, err := Train(all[:half], packetSize, 32<<10)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"none", "s2", "zstd:fastest", "zstd:better"} {
			spec, err := compress.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []*compress.Dictionary{nil, dict} {
				r, err := Measure(all[half:], packetSize, spec, d)
				if err != nil {
					t.Fatal(err)
				}
				ratio, times := r.Value("", "ratio"), r.Value("", "link_ratio")
				t.Logf("%s: compression %s: rows %+v", name, spec, r.Rows)
				if text == "zstd:better" && d != nil && (ratio > 0.45 || times < 1/(0.45+0.05)) {
					t.Errorf("%s: %.3f of the bytes, %.2f times the rate, want at most 0.45 and at least %.2f", name, ratio, times, 1/(0.45+0.05))
				}
				if ratio > 1 || text == "none" && ratio != 1 {
					t.Errorf("%s: %s: %.3f of the bytes, want at most 1, and 1 without compression", name, text, ratio)
				}
			}
		}
	}
}

// topicIndex is the index of a simulated topic, named by onTopics.
func topicIndex(name string) int {
	for i := range sim.MaxTopics {
		if sim.TopicName(i) == name {
			return i
		}
	}
	panic("no simulated topic has the name " + name)
}

// onTopics maps messages to the topics of the simulator, several of their topics to one.
func onTopics(messages []Messages) (all []Messages) {
	topics := make(map[string]string)
	for _, m := range messages {
		if topics[m.Topic] == "" {
			topics[m.Topic] = sim.TopicName(len(topics) % sim.MaxTopics)
		}
		all = append(all, Messages{topics[m.Topic], m.Data})
	}
	return all
}

// slowLink publishes messages over a simulated link of 1 Gb/s, as fast as it carries them, to two
// subscribers, and returns the number of messages in a second, and the bytes and number of data packets.
func slowLink(t *testing.T, messages []Messages, packetSize int, compression string, dict *compress.Dictionary) (rate float64, wire, packets uint64) {
	t.Helper()
	content, topics := &sim.Content{Dictionary: dict}, 0
	for _, m := range messages {
		i := topicIndex(m.Topic)
		topics = max(topics, i+1)
		content.Messages = append(content.Messages, sim.ContentMessage{Topic: i, Data: m.Data})
	}
	const n = 60_000
	o := sim.Simple(1, 2, n)
	o.Content = content
	o.Net.Bandwidth, o.Net.Overhead, o.Net.Egress = gigabit, around, 64
	p := &o.Publishers[0]
	p.PacketSize, p.Topics, p.Burst, p.Gap = packetSize, topics, 1000, time.Microsecond
	p.Compress, p.Dictionary = compression, dict != nil
	for i := range o.Subscribers {
		o.Subscribers[i].Topics = p.Topics
	}
	r, err := sim.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages != 2*n || r.Sender.RepairsSent > 0 {
		t.Fatalf("%s: %d messages, %d repairs, want %d messages and no repairs", compression, r.Messages, r.Sender.RepairsSent, 2*n)
	}
	return n / r.Sending.Seconds(), r.Sender.BytesSent, r.Sender.PacketsSent
}

// Over a simulated link of 1 Gb/s the rate of real market data, and of the feed, grows by the
// factor by which bytes on the wire shrink, including the overhead of UDP, IP and Ethernet.
func TestMarketDataOnSlowLink(t *testing.T) {
	testenv.Slow(t)
	const packetSize = 1472
	for _, c := range []struct {
		name    string
		all     []Messages
		minimum map[string]float64 // minimum factor of the rate without compression, by codec; "+": with the dictionary
	}{
		{"real", onTopics(real(t)), map[string]float64{"s2": 1.4, "s2+": 1.48, "zstd:fastest": 1.68, "zstd:better": 1.72, "zstd:better+": 2.15}},
		{"generated", onTopics(generated(t, 40_000)), map[string]float64{"s2": 1.4, "s2+": 1.62, "zstd:fastest": 2, "zstd:better": 2.08, "zstd:better+": 2.42}},
	} {
		half := len(c.all) / 2
		dict, err := Train(c.all[:half], packetSize, 32<<10)
		if err != nil {
			t.Fatal(err)
		}
		raw, rawBytes, rawPackets := slowLink(t, c.all[half:], packetSize, "", nil)
		t.Logf("%s: %.0f messages a second, raw", c.name, raw)
		for _, compression := range []string{"s2", "s2+", "zstd:fastest", "zstd:better", "zstd:better+"} {
			codec, with := compression, (*compress.Dictionary)(nil)
			if name, ok := strings.CutSuffix(compression, "+"); ok {
				codec, with = name, dict
			}
			rate, bytes, packets := slowLink(t, c.all[half:], packetSize, codec, with)
			times := rate / raw
			fewer := float64(rawBytes+around*rawPackets) / float64(bytes+around*packets)
			t.Logf("%s: %s: %.0f messages a second, %.2f times raw; %.3f of the bytes, with overhead 1/%.2f", c.name, compression, rate, times, float64(bytes)/float64(rawBytes), fewer)
			if times < c.minimum[compression] || times < 0.97*fewer || times > 1.03*fewer {
				t.Errorf("%s: %s: %.2f times the rate for 1/%.2f of the bytes, want at least %.2f and about %.2f times", c.name, compression, times, fewer, c.minimum[compression], fewer)
			}
		}
	}
}
