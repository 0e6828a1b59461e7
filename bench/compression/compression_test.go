package compression

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/internal/compress"
)

// real are the messages of a day at Nasdaq that come with the example, on one topic.
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
		all = append(all, Messages{"md.xnas." + g.Symbol(m.Locate), bytes.Clone(m.Bytes)})
	}
	return all
}

// With a dictionary from its first half the second half of real market data, and of the feed,
// takes at most 0.45 of its bytes on the wire, and a link carries so many more messages.
func TestMarketData(t *testing.T) {
	const packetSize = 1472
	for name, all := range map[string][]Messages{"real": real(t), "generated": generated(t, 40_000)} {
		half := len(all) / 2
		dict, err := compress.Train(Samples(all[:half], packetSize), 32<<10)
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
				t.Logf("%s: %+v", name, r)
				if text == "zstd:better" && d != nil && (r.Ratio > 0.45 || r.Times < 1/(0.45+0.05)) {
					t.Errorf("%s: %.3f of the bytes, %.2f times the rate", name, r.Ratio, r.Times)
				}
				if r.Ratio > 1 || text == "none" && r.Ratio != 1 {
					t.Errorf("%s: %s: %.3f of the bytes", name, text, r.Ratio)
				}
			}
		}
	}
}
