package feed

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

func generator(t testing.TB, cfg Config) *Generator {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// all returns the day as one file, and the locate of each message.
func all(t testing.TB, cfg Config) (file []byte, locates []uint16) {
	t.Helper()
	g := generator(t, cfg)
	for {
		m, ok := g.Next()
		if !ok {
			break
		}
		file = itch.AppendFrame(file, m.Append(nil))
		locates = append(locates, m.Locate)
	}
	if uint64(len(locates)) != g.Total() {
		t.Errorf("%d messages, want Total, %d", len(locates), g.Total())
	}
	if _, ok := g.Next(); ok {
		t.Error("a message after the last")
	}
	return file, locates
}

// The complete day is applied to an independent book: nothing is inconsistent, no book is crossed,
// and the symbols match the directory.
func TestDayIsConsistent(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, cfg := range []Config{
		{Symbols: 1, Messages: 20_000, Rate: 60_000, Seed: seed},
		{Symbols: 3, Messages: 100, Rate: 60_000, Seed: seed},
		{Symbols: 60, Messages: 200_000, Rate: 60_000, Seed: seed},
	} {
		g := generator(t, cfg)
		set := new(book.Set)
		count := map[itch.Type]int{}
		stocks := map[uint16]itch.Symbol{}
		var events []byte
		var last time.Duration
		for {
			m, ok := g.Next()
			if !ok {
				break
			}
			var h itch.Message
			if err := h.Parse(m.Append(nil)); err != nil {
				t.Fatal(err)
			}
			set.Apply(&h)
			count[h.Type]++
			if !bytes.Equal(h.Append(nil), m.Append(nil)) || m.Timestamp < max(last, startOfDay) {
				t.Fatalf("message %+v after timestamp %v is parsed as %+v, want the same bytes in ascending time", m, last, h)
			}
			last = m.Timestamp
			if h.Type == itch.TypeSystemEvent {
				events = append(events, h.Event)
				continue
			}
			switch {
			case h.Type == itch.TypeStockDirectory:
				if len(events) != 1 {
					t.Errorf("directory message after events %s, want only the first event before it", events)
				}
				stocks[h.Locate] = h.Stock
			case stocks[h.Locate] == (itch.Symbol{}) || h.Stock != (itch.Symbol{}) && h.Stock != stocks[h.Locate]:
				t.Fatalf("%v about stock %d %q, the directory has %q", h.Type, h.Locate, h.Stock, stocks[h.Locate])
			}
			if m.Locate > 0 && g.Symbol(m.Locate) != stocks[h.Locate].String() {
				t.Fatalf("symbol %q, the directory has %q", g.Symbol(m.Locate), stocks[h.Locate])
			}
			if bid, ask := set.Book(m.Locate).Top(); bid.Orders > 0 && ask.Orders > 0 && bid.Price >= ask.Price {
				t.Fatalf("%v crosses the book of %v: %v, %v", h.Type, g.Symbol(m.Locate), bid, ask)
			}
		}
		if string(events) != "OQMC" || len(stocks) != cfg.Symbols {
			t.Errorf("events %s, %d symbols, want OQMC and %d", events, len(stocks), cfg.Symbols)
		}
		stats, orders := set.Stats()
		if stats.Unknown+stats.Duplicate+stats.Excess+stats.Empty != 0 {
			t.Errorf("statistics %+v, want no inconsistent messages", stats)
		}
		t.Logf("%d symbols: %d orders at the end, %v", cfg.Symbols, orders, count)
		if cfg.Messages < 10_000 {
			continue
		}
		for _, typ := range []itch.Type{'A', 'F', 'E', 'C', 'X', 'D', 'U', 'P'} {
			if count[typ] == 0 {
				t.Errorf("no message of type %v", typ)
			}
		}
		// Realistic: mostly adds and deletes, a few executions.
		share := func(types ...itch.Type) (sum float64) {
			for _, typ := range types {
				sum += float64(count[typ])
			}
			return sum / float64(cfg.Messages)
		}
		for _, c := range []struct {
			name          string
			got, min, max float64
		}{
			{"adds", share('A', 'F'), 0.3, 0.55},
			{"deletes", share('D'), 0.3, 0.5},
			{"replaces", share('U'), 0.05, 0.15},
			{"executions", share('E', 'C'), 0.02, 0.15},
			{"cancels", share('X'), 0.005, 0.03},
		} {
			if c.got < c.min || c.got > c.max {
				t.Errorf("%s: %.3f of the messages, want %.3f to %.3f", c.name, c.got, c.min, c.max)
			}
		}
	}
}

func TestDeterministic(t *testing.T) {
	cfg := Config{Symbols: 20, Messages: 20_000, Rate: 60_000, Seed: 1}
	one, _ := all(t, cfg)
	two, _ := all(t, cfg)
	if !bytes.Equal(one, two) {
		t.Error("the same seed yields different feeds")
	}
	cfg.Seed = 2
	if other, _ := all(t, cfg); bytes.Equal(one, other) {
		t.Error("two seeds yield the same feed")
	}
}

// The first of 50 symbols must be much busier than the last, and each must have messages.
func TestActivityIsZipf(t *testing.T) {
	_, locates := all(t, Config{Symbols: 50, Messages: 200_000, Rate: 60_000, Seed: 3})
	count := make([]int, 51)
	for _, l := range locates {
		count[l]++
	}
	if count[1] < 5*count[25] || count[1] > len(locates)/2 {
		t.Errorf("the busiest has %d of %d messages, the middle one %d, want the busiest at most half, and 5 times the middle one", count[1], len(locates), count[25])
	}
	for l, n := range count {
		if n < 2 {
			t.Errorf("stock %d has %d messages, want at least 2", l, n)
		}
	}
}

// The mean rate is the configured one, and messages come in bursts: their number in windows of 10
// ms varies far more than that of independent messages, for which variance and mean are equal.
func TestBursts(t *testing.T) {
	const rate = 50_000
	g := generator(t, Config{Symbols: 50, Messages: 1_000_000, Rate: rate, Seed: 4})
	const window = 10 * time.Millisecond
	var counts []float64
	var end time.Duration
	for {
		m, ok := g.Next()
		if !ok {
			break
		}
		end = m.Timestamp - startOfDay
		for int(end/window) >= len(counts) {
			counts = append(counts, 0)
		}
		counts[end/window]++
	}
	if got := 1_000_000 / end.Seconds(); math.Abs(got/rate-1) > 0.05 {
		t.Errorf("%.0f messages a second, want %d", got, rate)
	}
	var sum, squares float64
	for _, n := range counts {
		sum += n
		squares += n * n
	}
	mean := sum / float64(len(counts))
	ratio := (squares/float64(len(counts)) - mean*mean) / mean
	t.Logf("variance is %.1f times the mean", ratio)
	if ratio < 10 {
		t.Errorf("variance is %.1f times the mean: no bursts", ratio)
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{
		{Rate: 1}, {Symbols: -1, Rate: 1}, {Symbols: MaxSymbols + 1, Rate: 1},
		{Symbols: 1}, {Symbols: 1, Rate: -1}, {Symbols: 1, Rate: math.NaN()}, {Symbols: 1, Rate: math.Inf(1)},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
	if g := generator(t, Config{Symbols: 50, Messages: 500_000, Rate: 60_000}); g.Total() != 500_054 {
		t.Errorf("%d messages, want 500054", g.Total())
	}
}

func TestSymbolNames(t *testing.T) {
	seen := map[string]bool{}
	for i := range MaxSymbols {
		name := symbolName(i)
		if seen[name] || len(name) > len(itch.Symbol{}) || name == "" {
			t.Fatalf("symbol %d is %q, want a new name of 1 to %d bytes", i, name, len(itch.Symbol{}))
		}
		seen[name] = true
	}
	g := generator(t, Config{Symbols: 2, Rate: 1})
	if g.Symbol(1) != "AAPL" || g.Symbol(2) != "MSFT" {
		t.Errorf("symbols %q and %q, want AAPL and MSFT", g.Symbol(1), g.Symbol(2))
	}
}

func TestNextNoAllocations(t *testing.T) {
	g := generator(t, Config{Symbols: 10, Messages: 1 << 20, Rate: 60_000})
	if n := testing.AllocsPerRun(10_000, func() { g.Next() }); n != 0 {
		t.Errorf("%v allocations a message, want none", n)
	}
}

func BenchmarkNext(b *testing.B) {
	g := generator(b, Config{Symbols: 50, Messages: math.MaxUint32, Rate: 60_000})
	b.ReportAllocs()
	for b.Loop() {
		g.Next()
	}
}
