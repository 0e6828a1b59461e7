package itch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// sampleFile holds the first 1000 messages after the opening bell of 2019-12-30, from the sample published by Nasdaq.
const sampleFile = "testdata/12302019_SNIPPET.NASDAQ_ITCH50"

func sample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readAll returns copies of all messages up to the first error.
func readAll(t testing.TB, file []byte) ([][]byte, error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all [][]byte
	for {
		msg, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, bytes.Clone(msg))
	}
}

func TestSample(t *testing.T) {
	file := sample(t)
	all, err := readAll(t, file)
	if err != nil {
		t.Fatal(err)
	}
	count := map[Type]int{}
	var again []byte
	for _, msg := range all {
		count[Type(msg[0])]++
		again = AppendFrame(again, msg)
	}
	want := map[Type]int{'A': 367, 'U': 225, 'F': 193, 'D': 167, 'E': 28, 'X': 6, 'I': 4, 'P': 4, 'Q': 4, 'S': 1, 'C': 1}
	if len(all) != 1000 || !maps.Equal(count, want) {
		t.Errorf("%d messages: %v, want %v", len(all), count, want)
	}
	if !bytes.Equal(again, file) {
		t.Error("framing the messages again yields another file")
	}
	var first, last Message
	if err := errors.Join(first.Parse(all[0]), last.Parse(all[len(all)-1])); err != nil {
		t.Fatal(err)
	}
	if d := last.Timestamp - first.Timestamp; d <= 0 {
		t.Errorf("the sample spans %v, want more than 0", d)
	}
}

func gzipped(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(b, nil)
}

// Compression is recognized by content, not by file names.
func TestCompressed(t *testing.T) {
	file := sample(t)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	half := len(file) / 2 // in the middle of a message
	for name, packed := range map[string][]byte{
		"plain":          file,
		"gzip":           gzipped(t, file),
		"gzip, 2 parts":  append(gzipped(t, file[:half]), gzipped(t, file[half:])...),
		"zstd":           zstded(t, file),
		"zstd, 2 parts":  append(zstded(t, file[:half]), zstded(t, file[half:])...),
		"zstd, skipping": append(skippable, zstded(t, file)...),
	} {
		all, err := readAll(t, packed)
		if err != nil || len(all) != 1000 {
			t.Errorf("%s: %d messages and error %v, want 1000 and none", name, len(all), err)
		}
	}
	for name, packed := range map[string][]byte{"gzip": gzipped(t, file), "zstd": zstded(t, file)} {
		for _, n := range []int{4, 20, len(packed) / 2, len(packed) - 1} {
			if all, err := readAll(t, packed[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes read as a whole file of %d messages", name, n, len(packed), len(all))
			}
		}
	}
}

// A file truncated at any length yields an error with the offset of the incomplete frame; between
// frames there is no error.
func TestTruncated(t *testing.T) {
	var file []byte
	starts := map[int]int{} // offset of a frame → its index
	for i, g := range golden {
		starts[len(file)] = i
		file = AppendFrame(file, unhex(t, g.hex))
	}
	starts[len(file)] = len(golden)
	frame := 0
	for n := range len(file) + 1 {
		all, err := readAll(t, file[:n])
		if i, complete := starts[n]; complete {
			frame = n
			if err != nil || len(all) != i {
				t.Fatalf("%d bytes: %d messages, %v, want %d and no error", n, len(all), err, i)
			}
			continue
		}
		var fe *FrameError
		if !errors.As(err, &fe) || !errors.Is(err, ErrTruncated) || fe.Offset != int64(frame) || fe.Index != int64(starts[frame]) {
			t.Fatalf("%d bytes: %v, want truncation at offset %d", n, err, frame)
		}
	}
}

func TestDamaged(t *testing.T) {
	good := AppendFrame(nil, unhex(t, golden[0].hex))
	at := int64(len(good))
	with := func(b ...byte) []byte { return append(bytes.Clone(good), b...) }
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"oversize":           {with(0x01, 0x00), ErrOversize},
		"oversize and cut":   {with(0xff, 0xff, 'x'), ErrOversize},
		"short for its type": {with(0, 11, 'D', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), ErrLength},
		"shorter than all":   {with(0, 1, 'z'), ErrLength},
		"after the end":      {with(0, 0, 0), ErrTrailing},
	} {
		all, err := readAll(t, c.file)
		var fe *FrameError
		if len(all) != 1 || !errors.Is(err, c.want) || !errors.As(err, &fe) || fe.Offset != at || fe.Index != 1 {
			t.Errorf("%s: %d messages, %v, want %v at %d", name, len(all), err, c.want, at)
		}
		if want := fmt.Sprintf("offset %d (message 1): ", at); err != nil && !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
			t.Errorf("%s: %q does not begin with %q", name, err, want)
		}
	}
	if all, err := readAll(t, with(0, 0)); err != nil || len(all) != 1 {
		t.Errorf("end-of-session mark: %d messages, %v, want 1 and no error", len(all), err)
	}
	if all, err := readAll(t, nil); err != nil || len(all) != 0 {
		t.Errorf("empty file: %d messages, %v, want 0 and no error", len(all), err)
	}
}

// Errors are sticky: after an error the reader does not continue in the middle of a frame.
func TestErrorIsSticky(t *testing.T) {
	r, err := NewReader(bytes.NewReader([]byte{0xff, 0xff, 0, 1, 'z'}))
	if err != nil {
		t.Fatal(err)
	}
	_, first := r.Next()
	if _, second := r.Next(); first == nil || second != first {
		t.Errorf("errors %v, then %v, want the same error twice", first, second)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Errorf("Close is not idempotent: %v", err)
		}
	}
}

func TestReaderNoAllocations(t *testing.T) {
	const runs = 1000
	file := bytes.Repeat(sample(t), 2) // AllocsPerRun makes one additional run
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n := testing.AllocsPerRun(runs, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a message, want none", n)
	}
}

// FuzzReader: no panics, every error has its position, and the messages read yield the same bytes when framed again.
func FuzzReader(f *testing.F) {
	file := sample(f)[:400]
	f.Add(file)
	f.Add(file[:399])
	f.Add(gzipped(f, file))
	f.Add(zstded(f, file))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		packed := bytes.HasPrefix(b, []byte{0x1f, 0x8b}) || isZstd(b)
		var again []byte
		for range 1 << 16 { // a few compressed bytes can expand to a great many messages
			msg, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				var fe *FrameError
				if !errors.As(err, &fe) || fe.Offset != int64(len(again)) {
					t.Errorf("file cut at %d: error %v, want a FrameError at that offset", len(again), err)
				}
				break
			}
			again = AppendFrame(again, msg)
		}
		if !packed && !bytes.HasPrefix(b, again) {
			t.Errorf("messages read and written again are %x, want the beginning of %x", again, b)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	file := sample(b)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = r.Next()
		}
		r.Close()
	}
}
