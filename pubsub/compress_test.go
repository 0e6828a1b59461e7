package pubsub

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// quote is a message similar to those of a market data feed.
func quote(i int) []byte {
	return fmt.Appendf(nil, `{"symbol":"ABC%02d","bid":%d.%02d,"ask":%d.%02d,"venue":"XNAS"}`, i%40, 100+i%7, i*37%100, 101+i%7, i*61%100)
}

// Compressed messages arrive unchanged at handlers and readers, over each fabric, with losses, and in several
// packets; and they take fewer bytes. docs/protocol §26.1.
func TestCompress(t *testing.T) {
	var dictionary []byte
	for i := range 200 {
		dictionary = append(dictionary, quote(i)...)
	}
	for _, c := range []Config{{Compress: CompressS2}, {Compress: CompressZstd}, {Compress: CompressS2, Dictionaries: [][]byte{dictionary}}, {Compress: CompressZstd, Dictionaries: [][]byte{dictionary}}} {
		t.Run(fmt.Sprint(strings.ReplaceAll(string(c.Compress), ":", "-"), len(c.Dictionaries)), func(t *testing.T) {
			if testing.Short() && c.Compress == CompressZstd && c.Dictionaries != nil {
				testCompress(t, udpURL(t), c) // with the race detector this takes ten times as long as all others
				return
			}
			eachFabric(t, func(t *testing.T, url string) { testCompress(t, url, c) })
		})
	}
}

// Compressed packets are sealed like others.
func TestCompressSealed(t *testing.T) {
	set, err := NewKeySet(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	testCompress(t, udpURL(t), Config{Compress: CompressZstd, Keys: StaticKeys(set)})
}

func testCompress(t *testing.T, url string, c Config) {
	n := fewer(10_000)
	ctx := testContext(t)
	large := bytes.Repeat(quote(1), 2000)
	message := func(i int) []byte {
		if i%1000 == 999 {
			return large
		}
		return quote(i)
	}
	pubBus := openBus(t, c, url)
	c.Compress, c.Faults = "", "loss=0.01,seed=3"
	to := openBus(t, c, url)
	var handled atomic.Uint64
	if _, err := to.Handle("x", func(m Message, err error) {
		i := handled.Add(1) - 1
		if err != nil || m.Number != i || !bytes.Equal(m.Data, message(int(i))) {
			t.Errorf("handler: message %d of %d bytes, %v, want %d", m.Number, len(m.Data), err, i)
		}
	}); err != nil {
		t.Fatal(err)
	}
	sub, pub := subscribe(t, to, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	go func() {
		for i := range n {
			if err := pub.Publish(ctx, message(i)); err != nil {
				t.Error(err)
				return
			}
		}
		pub.Flush(ctx)
	}()
	for i := range n {
		m, err := sub.Next(ctx)
		if err != nil || m.Number != uint64(i) || !bytes.Equal(m.Data, message(i)) {
			t.Fatalf("message %d of %d bytes, %v, want %d", m.Number, len(m.Data), err, i)
		}
	}
	if err := pub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for handled.Load() < uint64(n) && ctx.Err() == nil { // the handler may run later than the reader
		time.Sleep(time.Millisecond)
	}
	if handled.Load() != uint64(n) || pub.Delivered() != uint64(n) {
		t.Errorf("%d of %d messages were handled, %d delivered, want all", handled.Load(), n, pub.Delivered())
	}
	p, g := pubBus.Stats().Publications[0], to.Stats().Groups[0]
	if p.PacketsPacked == 0 || p.BytesSent >= p.BytesUnpacked || g.Packed == 0 || 2*g.PackedBytes > g.UnpackedBytes || g.Lost > 0 {
		t.Errorf("%d of %d packets compressed, %d of %d bytes; %d arrived, %d of %d bytes, %d lost", p.PacketsPacked, p.PacketsSent, p.BytesSent, p.BytesUnpacked, g.Packed, g.PackedBytes, g.UnpackedBytes, g.Lost)
	}
}

// A subscriber without the dictionary has gaps of CauseUnreadable, and one event that names the dictionary.
// docs/protocol §26.5.
func TestDictionaryMissing(t *testing.T) {
	ctx := testContext(t)
	url, dictionary := memURL(t), bytes.Repeat(quote(1), 4)
	name, err := DictionaryName(dictionary)
	if err != nil {
		t.Fatal(err)
	}
	var reported atomic.Pointer[events.DictionaryError]
	var times atomic.Int32
	from := openBus(t, Config{Compress: CompressZstd, Dictionaries: [][]byte{dictionary}}, url)
	to := openBus(t, Config{OnEvent: func(e events.Event) {
		if e.Kind == events.DictionaryMissing {
			var x *events.DictionaryError
			if errors.As(e.Err, &x) && strings.Contains(e.String(), name) && strings.Contains(e.String(), "-dict") {
				reported.Store(x)
			}
			times.Add(1)
		}
	}}, url)
	sub, pub := subscribe(t, to, "x"), publisher(t, from, "x")
	wait(t, ctx, pub, 1)
	const n = 100
	for range n {
		publish(t, ctx, pub, string(bytes.Repeat([]byte("always the same "), 4)))
	}
	if err := pub.Drain(ctx); err != nil { // the publisher is not blocked
		t.Fatal(err)
	}
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	lost := uint64(0)
	for read := uint64(0); read+lost < n; {
		var gap *GapError
		switch _, err := sub.Next(ctx); {
		case err == nil:
			read++ // its packet has names, too, and is not compressed
		case !errors.As(err, &gap) || gap.Cause != events.CauseUnreadable:
			t.Fatalf("%v, want a gap because the dictionary is missing", err)
		default:
			lost += gap.Count
		}
	}
	if lost == 0 {
		t.Error("no message was lost")
	}
	x := reported.Load()
	if x == nil || x.Dictionary != name || x.Codec != "zstd" || x.Publisher != from.ID() || times.Load() != 1 {
		t.Errorf("the missing dictionary was reported %d times, want once: %+v", times.Load(), x)
	}
	if g := to.Stats().Groups[0]; g.Unreadable == 0 || g.LostUnreadable != g.Unreadable || g.NAKs > 0 {
		t.Errorf("%d unreadable, %d lost because of that, %d NAKs, want equal losses and no NAKs", g.Unreadable, g.LostUnreadable, g.NAKs)
	}
}

func TestDictionaries(t *testing.T) {
	for _, c := range []struct {
		of   []byte
		want string
	}{
		{make([]byte, 15), "item 0 of 15 bytes"},
		{make([]byte, 1<<20+1), "within 16..1048576"},
		{append([]byte{0x37, 0xa4, 0x30, 0xec}, make([]byte, 60)...), "begins like one of Zstandard"},
	} {
		_, err := Config{Dictionaries: [][]byte{c.of}, Logger: quiet}.Open(t.Context(), memURL(t))
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != "Dictionaries" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %v, want %s", len(c.of), err, c.want)
		}
	}
	_, err := Config{Compress: "s2:better", Dictionaries: [][]byte{make([]byte, 16)}, Logger: quiet}.Open(t.Context(), memURL(t))
	var ce *ConfigError
	if !errors.As(err, &ce) || ce.Field != "Compress" || errors.Is(err, ErrURL) {
		t.Errorf("a level that cannot use a dictionary: error %v, want one of Config.Compress", err)
	}
}

// Compression allocates nothing.
func TestCompressAllocatesNothing(t *testing.T) {
	testenv.Slow(t)
	if poolsForget() {
		t.Skip("with the race detector sync.Pool, which the codecs use, drops items at random")
	}
	for _, c := range []Compression{"s2", "s2:better", "zstd:fastest", "zstd"} {
		for _, d := range [][][]byte{nil, {bytes.Repeat(quote(1), 9)}} {
			if c == "s2:better" && d != nil {
				continue
			}
			t.Run(fmt.Sprint(strings.ReplaceAll(string(c), ":", "-"), len(d)), func(t *testing.T) {
				url := memURL(t)
				from, to := openBus(t, Config{Compress: c, Dictionaries: d, WindowBytes: 1 << 20}, url), openBus(t, Config{Dictionaries: d}, url)
				checkAllocations(t, from, subscribe(t, to, "x"), "x")
			})
		}
	}
}

// poolsForget reports whether a sync.Pool drops items that were just put into it, as it does with the race detector.
func poolsForget() bool {
	var p sync.Pool
	forgotten := 0
	for range 1000 {
		p.Put(new(int))
		if p.Get() == nil {
			forgotten++
		}
	}
	return forgotten > 100
}
