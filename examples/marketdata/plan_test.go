package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

const sampleFile = "itch/testdata/12302019_SNIPPET.NASDAQ_ITCH50"

func writeFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// drain reads a source to its end and returns the number of messages of each topic.
func drain(t testing.TB, cfg config, p *plan) []uint64 {
	t.Helper()
	src, err := openSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	counts := make([]uint64, len(p.Topics))
	var last time.Duration
	for {
		topic, due, err := src.next(p)
		if err == io.EOF {
			return counts
		}
		if err != nil {
			t.Fatal(err)
		}
		if locate := src.msg.Locate; p.Locate[locate] != topic || due < last {
			t.Fatalf("locate %d goes to topic %d, due at %v after %v, want topic %d and ascending times", locate, topic, due, last, p.Locate[locate])
		}
		last = due
		counts[topic]++
	}
}

func sum(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestPlanGenerated(t *testing.T) {
	cfg := config{Symbols: 3, Messages: 1000, Rate: defaultRate, Seed: 5}
	p, err := makePlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"md.xnas.AAPL", "md.xnas.MSFT", "md.xnas.AMZN", "md.xnas.market"}; !slices.Equal(p.Topics, want) {
		t.Errorf("topics %v, want %v", p.Topics, want)
	}
	counts := drain(t, cfg, p)
	if p.Total != 1007 || sum(counts) != p.Total || counts[3] != 4 {
		t.Errorf("planned %d messages, read %v, want 1007, and 4 of topic 3", p.Total, counts)
	}
}

func TestPlanFile(t *testing.T) {
	cfg := config{File: sampleFile}
	p, err := makePlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	counts := drain(t, cfg, p)
	if p.Total != 1000 || sum(counts) != 1000 || p.Unnamed == 0 {
		t.Errorf("planned %d messages, read %d; %d topics without a name, want 1000 messages, and some topics without a name", p.Total, sum(counts), p.Unnamed)
	}
	unnamed := 0
	for i, topic := range p.Topics {
		if counts[i] == 0 {
			t.Errorf("topic %s has no messages", topic)
		}
		if strings.HasPrefix(topic, topicPrefix+"locate-") {
			unnamed++
		}
	}
	if unnamed != p.Unnamed {
		t.Errorf("%d topics are named by locate, the plan has %d", unnamed, p.Unnamed)
	}

	cfg = config{File: sampleFile, Symbols: 2, Messages: 500, Rate: 1000}
	p, err = makePlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	counts = drain(t, cfg, p)
	market := slices.Index(p.Topics, marketTopic)
	if len(p.Topics) != 3 || market < 0 || counts[market] != 1 || sum(counts) != p.Total || p.Total >= 500 {
		t.Errorf("the two busiest: topics %v with %v messages, planned %d, want 3 topics, 1 message of the market, and fewer than 500 in all", p.Topics, counts, p.Total)
	}
}

// A symbol applies to all messages of its stock locate, also to those before the first that
// contains it; locates that share a symbol share a topic.
func TestPlanLearnsSymbols(t *testing.T) {
	var file []byte
	for _, m := range []itch.Message{
		{Type: itch.TypeOrderDelete, Locate: 7, Ref: 1},
		{Type: itch.TypeAddOrder, Locate: 7, Side: itch.Buy, Stock: itch.MakeSymbol("BRK.B")},
		{Type: itch.TypeStockDirectory, Locate: 9, Stock: itch.MakeSymbol("BRK.B")},
		{Type: itch.TypeOrderDelete, Locate: 8, Ref: 1},
		{Type: itch.TypeSystemEvent, Event: itch.EventEndOfMessages},
	} {
		file = itch.AppendFrame(file, m.Append(nil))
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(file)
	w.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	for name, b := range map[string][]byte{"plain": file, "packed": z.Bytes(), "other": enc.EncodeAll(file, nil)} {
		cfg := config{File: writeFile(t, name, b)}
		p, err := makePlan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		at := func(locate uint16) string { return p.Topics[p.Locate[locate]] }
		if at(7) != "md.xnas.BRK-B" || at(9) != at(7) || at(8) != "md.xnas.locate-8" || at(0) != marketTopic || len(p.Topics) != 3 {
			t.Errorf("%s: topics %v, locates %v, want BRK-B for locates 7 and 9, locate-8 for 8, the market for 0", name, p.Topics, p.Locate)
		}
		if counts := drain(t, cfg, p); sum(counts) != 5 || p.Total != 5 {
			t.Errorf("%s: messages %v, planned %d, want 5", name, counts, p.Total)
		}
	}
}

// Errors in a file are detected before anything is sent, and reported with the file's name and the position.
func TestPlanBadFile(t *testing.T) {
	sample, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	cut := writeFile(t, "cut", sample[:len(sample)-1])
	_, err = makePlan(config{File: cut})
	if !errors.Is(err, itch.ErrTruncated) || !strings.HasPrefix(err.Error(), cut+": offset 35") {
		t.Errorf("a truncated file: error %v, want %v at offset 35", err, itch.ErrTruncated)
	}
	if _, err = makePlan(config{File: cut, Messages: 999}); err != nil {
		t.Errorf("the complete part of a truncated file: %v", err)
	}
	for name, path := range map[string]string{
		"text":      writeFile(t, "text", []byte("Hello, world")),
		"empty":     writeFile(t, "empty", nil),
		"missing":   filepath.Join(t.TempDir(), "missing"),
		"directory": t.TempDir(),
		"bad gzip":  writeFile(t, "gzip", []byte{0x1f, 0x8b, 0, 0, 0}),
		"bad zstd":  writeFile(t, "zstd", []byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff}),
	} {
		if _, err := makePlan(config{File: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("makePlan of %s: error %v, want one that contains the path", name, err)
		}
	}
}

// An invalid field is detected before anything is sent, with its position.
func TestPlanBadField(t *testing.T) {
	b, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := itch.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for at := 0; ; {
		msg, err := r.Next()
		if err != nil {
			t.Fatal("the sample has no order: ", err)
		}
		if itch.Type(msg[0]) != itch.TypeAddOrder {
			at += 2 + len(msg) // after the length
			continue
		}
		b[at+2+19] = 'x'
		path := writeFile(t, "side", b)
		if _, err := planFile(config{File: path}); !errors.Is(err, itch.ErrSide) || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s: offset %d ", path, at)) {
			t.Errorf("%v, want ErrSide at offset %d", err, at)
		}
		return
	}
}

func TestTopicOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"AAPL": "md.xnas.AAPL", "BRK.B": "md.xnas.BRK-B", "A*": "md.xnas.A_", "A>B": "md.xnas.A_B", "X Y": "md.xnas.X_Y", "É": "md.xnas._",
	} {
		if got := topicOf(symbol); got != want {
			t.Errorf("topic of %s is %s, want %s", symbol, got, want)
		}
	}
}
