package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Compressed messages arrive at Python with loss, with and without a dictionary: messages in one
// packet and in many. docs/protocol §26.1, §26.2, §26.4.
func TestCompressedGoesToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for name, c := range map[string]struct {
		codec pubsub.Compression
		dict  []byte
	}{
		"s2":                             {"s2:better", nil},
		"s2 with a dictionary":           {"s2", plainDictionary()},
		"zstd":                           {"zstd:fastest", nil},
		"zstd with a dictionary":         {"zstd", plainDictionary()},
		"zstd with a trained dictionary": {"zstd:default", trainedDictionary(t)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, net := testContext(t), newNetwork(t)
			net.compressible = true
			config, options := pubsub.Config{Compress: c.codec}, []string(nil)
			if c.dict != nil {
				config.Dictionaries = [][]byte{c.dict}
				file := filepath.Join(t.TempDir(), "dict")
				if err := os.WriteFile(file, c.dict, 0o600); err != nil {
					t.Fatal(err)
				}
				options = []string{"--dict", file}
			}
			bus := net.open(t, ctx, config)
			sub := subscribeFaulty(t, ctx, net, "loss=0.2,dup=0.02,reorder=0.05", streams(), options...) // there are some 60 packets, and some must be lost
			_, sum := net.toPython(t, ctx, bus, sub, 1000, (*checker).line)
			packed := packets(bus)
			if packed == 0 {
				t.Error("no packet was compressed")
			}
			t.Logf("%d packets were compressed, %v", packed, sum.Counters)
		})
	}
}

// packets returns how many packets a bus has compressed.
func packets(bus *pubsub.Bus) (n int) {
	for _, p := range bus.Stats().Publications {
		n += int(p.PacketsPacked)
	}
	return n
}

// Packets are lost without the dictionary, reported as gaps, and never requested. docs/protocol §26.5.
func TestPythonWithoutDictionary(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	net.compressible = true
	bus := net.open(t, ctx, pubsub.Config{Compress: "zstd", Dictionaries: [][]byte{plainDictionary()}})
	sub := subscribeFaulty(t, ctx, net, "", streams())
	published := publishAll(ctx, bus, publishers(t, ctx, bus, 1), net.messages(200))
	received, lost := 0, 0
	sum := sub.until(ofType("summary"), func(l line) {
		switch l.Type {
		case "message":
			received++
		case "gap":
			lost += int(l.Count)
		}
	})
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	if received+lost != 200 || lost == 0 {
		t.Errorf("%d messages received, %d lost, want 200 together, and some lost", received, lost)
	}
	if n := sum.Counters["unreadable"]; n == 0 || n > packets(bus) { // packets requested before they arrived count twice
		t.Errorf("%d of %d packets were unreadable, want some, counters %v", n, packets(bus), sum.Counters)
	}
}

// A receiver may omit a codec: packets that need it are unreadable. docs/protocol §26.7.
func TestPythonWithoutCodec(t *testing.T) {
	const program = `
import packed
packed.CODECS = packed.CODECS[:2]
try:
    packed.known.unpack(packed.CODEC_ZSTD, 0, b"", 8)
except packed.Unknown:
    print("unknown")
`
	out, err := exec.Command(python3(t), "-B", "-c", program).CombinedOutput()
	if err != nil || string(out) != "unknown\n" {
		t.Errorf("Python: error %v, output %q, want unknown", err, out)
	}
}

// compressed is an input of Python's decompressor, with its result.
type compressed struct {
	Codec      wire.Codec `json:"codec"`
	Dictionary []byte     `json:"dictionary"`
	Size       int        `json:"size"`
	Packed     []byte     `json:"packed"`

	Runs    []byte `json:"runs"`
	Corrupt string `json:"corrupt"`
}

// Each implementation decompresses what the other one compresses: contents with each kind of block, literals and table,
// at each level. Truncated or damaged input is refused by both, or yields the same. docs/protocol §26.2 to §26.4.
func TestDecompressors(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // other tests mostly wait
	rng := rand.New(rand.NewPCG(1, 1))
	var all []compressed
	for _, dict := range [][]byte{nil, plainDictionary(), trainedDictionary(t)} {
		for _, name := range compress.Names()[1:] {
			for _, runs := range contents(rng) {
				if x, ok := pack(t, name, dict, runs); ok {
					worse := damaged(rng, x)
					if len(runs) > 5_000 { // slow in Python
						worse = worse[:5]
					}
					all = append(append(all, x), worse...)
				}
			}
		}
	}
	good := 0
	for i, got := range inPython(t, all) {
		x := all[i]
		want, err := unpack(t, x)
		if (err != nil) != (got.Corrupt != "") || !bytes.Equal(want, got.Runs) {
			t.Fatalf("%v of %d bytes to %d, dictionary of %d: Go returns %d bytes, %v; Python %d, %q: %x",
				x.Codec, len(x.Packed), x.Size, len(x.Dictionary), len(want), err, len(got.Runs), got.Corrupt, x.Packed[:min(200, len(x.Packed))])
		}
		if err == nil {
			good++
		}
	}
	t.Logf("%d of %d inputs were decompressed", good, len(all))
}

// contents returns byte strings of several kinds.
func contents(rng *rand.Rand) (all [][]byte) {
	for _, n := range []int{1, 20, 300, 1400, 9000, wire.MaxRuns} {
		zeros, random, skewed, text := make([]byte, n), make([]byte, n), make([]byte, n), []byte(nil)
		for i := range n {
			random[i] = byte(rng.Uint32())
			skewed[i] = byte(min(rng.ExpFloat64()*8, 255))
		}
		for len(text) < n {
			text = fmt.Appendf(text, `{"symbol":"ABC%d","bid":%d,"ask":%d}`, rng.IntN(30), rng.IntN(2000), rng.IntN(2000))
		}
		all = append(all, zeros, random, skewed, text[:n])
	}
	return all
}

// plainDictionary returns bytes that are frequent in the texts.
func plainDictionary() []byte {
	return bytes.Repeat([]byte(`{"symbol":"ABC17","bid":1000,"ask":1010}`), 40)
}

// trainedDictionary returns a dictionary in the format of Zstandard.
func trainedDictionary(t *testing.T) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(2, 2))
	var samples [][]byte
	for range 10 {
		samples = append(samples, contents(rng)[15])
	}
	d, err := compress.Train(samples, 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	return d.Bytes
}

// dictionary returns the dictionary of these bytes, or nil.
func dictionary(t *testing.T, b []byte) *compress.Dictionary {
	t.Helper()
	if b == nil {
		return nil
	}
	d, err := compress.NewDictionary(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pack compresses runs. It reports false if they do not get shorter, or if the codec supports no dictionary.
func pack(t *testing.T, name string, dict, runs []byte) (x compressed, ok bool) {
	t.Helper()
	spec, err := compress.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := compress.New(spec, dictionary(t, dict))
	if err != nil {
		return x, false
	}
	packed := p.Pack(make([]byte, 0, 2*wire.MaxRuns), runs)
	return compressed{Codec: spec.Codec, Dictionary: dict, Size: len(runs), Packed: packed}, len(packed) < len(runs)
}

// damaged returns x truncated, with a wrong size, and with flipped bits.
func damaged(rng *rand.Rand, x compressed) (all []compressed) {
	add := func(size int, packed []byte) {
		all = append(all, compressed{Codec: x.Codec, Dictionary: x.Dictionary, Size: size, Packed: packed})
	}
	add(x.Size-1, x.Packed)
	add(x.Size+1, x.Packed)
	add(x.Size, append(bytes.Clone(x.Packed), 0))
	for range 4 {
		add(x.Size, x.Packed[:rng.IntN(len(x.Packed))])
		b := bytes.Clone(x.Packed)
		b[rng.IntN(min(len(b), 100))] ^= 1 << rng.IntN(8)
		add(x.Size, b)
	}
	return all
}

// unpack decompresses x in Go.
func unpack(t *testing.T, x compressed) ([]byte, error) {
	t.Helper()
	p := wire.Packed{Codec: x.Codec, Len: x.Size, Bytes: x.Packed}
	var dicts []*compress.Dictionary
	if d := dictionary(t, x.Dictionary); d != nil {
		dicts, p.Dict = append(dicts, d), d.Hash
	}
	return compress.NewUnpacker(dicts).Unpack(make([]byte, 0, wire.MaxRuns+1), p)
}

// inPython decompresses all inputs in Python.
func inPython(t *testing.T, all []compressed) []compressed {
	t.Helper()
	var in, out bytes.Buffer
	for _, x := range all {
		if err := json.NewEncoder(&in).Encode(x); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python3(t), "-B", "unpacked.py")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	got := make([]compressed, len(all))
	for d, i := json.NewDecoder(&out), 0; i < len(all); i++ {
		if err := d.Decode(&got[i]); err != nil {
			t.Fatalf("answer %d of %d: %v", i, len(all), err)
		}
	}
	return got
}
