package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// cut reads all messages.
func cut(r io.Reader, f framing) (msgs []string, err error) {
	fr := newFrameReader(r, f)
	for {
		batch, err := fr.batch()
		for _, m := range batch {
			msgs = append(msgs, string(m))
		}
		if err == io.EOF {
			return msgs, nil
		}
		if err != nil {
			return msgs, err
		}
	}
}

func join(t testing.TB, msgs []string, f framing) string {
	t.Helper()
	var b bytes.Buffer
	w := newFrameWriter(&b, f)
	for _, m := range msgs {
		if err := w.write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// asWritten is a stream in the form that is written: the last line ends with a newline.
func asWritten(stream string, f framing) string {
	if f == framingLines && stream != "" && !strings.HasSuffix(stream, "\n") {
		return stream + "\n"
	}
	return stream
}

func TestFramingGolden(t *testing.T) {
	for _, c := range []struct {
		framing framing
		stream  string
		msgs    []string
	}{
		{framingLines, "", nil},
		{framingLines, "a\n", []string{"a"}},
		{framingLines, "\n", []string{""}},
		{framingLines, "a\n\nb\r\n", []string{"a", "", "b\r"}},
		{framingLines, "a\nb", []string{"a", "b"}},
		{framingLines, "b\x04", []string{"b\x04"}},
		{framingITCH, "", nil},
		{framingITCH, "\x00\x03abc\x00\x01d", []string{"abc", "d"}},
		{framingITCH, "\x00\x01a\x00\x00", []string{"a", ""}},
		{framingWhole, "", []string{""}},
		{framingWhole, "a\nb", []string{"a\nb"}},
	} {
		msgs, err := cut(strings.NewReader(c.stream), c.framing)
		if err != nil || fmt.Sprintf("%q", msgs) != fmt.Sprintf("%q", c.msgs) {
			t.Errorf("%s %q: cut to %q, %v; want %q", c.framing, c.stream, msgs, err, c.msgs)
		}
		if got, want := join(t, c.msgs, c.framing), asWritten(c.stream, c.framing); got != want {
			t.Errorf("%s %q: joined to %q, want %q", c.framing, c.msgs, got, want)
		}
	}
}

// The messages do not depend on the pieces in which a stream is read.
func TestFramingPieces(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	var text, records strings.Builder
	lines := 3000
	if testing.Short() {
		lines /= 4
	}
	for i := range lines {
		line := strings.Repeat("x", i*i%1500)
		fmt.Fprintf(&text, "%s\n", line)
		records.WriteString(join(t, []string{line}, framingITCH))
	}
	text.WriteString(strings.Repeat("long", 200_000)) // longer than the buffer, without a newline
	for f, stream := range map[framing]string{framingLines: text.String(), framingITCH: records.String(), framingWhole: text.String()} {
		want, err := cut(strings.NewReader(stream), f)
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]io.Reader{
			"halves": iotest.HalfReader(strings.NewReader(stream)), "bytes": iotest.OneByteReader(strings.NewReader(stream)),
			"end together with data": iotest.DataErrReader(strings.NewReader(stream)),
		} {
			got, err := cut(r, f)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s in %s: differs from reading the stream at once, %v", f, name, err)
			}
		}
		if join(t, want, f) != asWritten(stream, f) {
			t.Errorf("%s: the joined messages differ", f)
		}
	}
}

func TestFramingFaults(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	full := "\x00\x03abc\x00\x05defgh"
	for i := 1; i < len(full); i++ {
		if i == 5 {
			continue // a complete message
		}
		msgs, err := cut(strings.NewReader(full[:i]), framingITCH)
		var fe *frameError
		if !errors.As(err, &fe) || len(msgs) != i/6 || fe.number != int64(i/6)+1 || fe.offset != int64(i/6*5) {
			t.Errorf("cut at %d: %q, %v, want %d messages, then an error for message %d at offset %d", i, msgs, err, i/6, i/6+1, i/6*5)
		}
	}
	_, err := cut(strings.NewReader("\x00\x03abc\x00\x05d"), framingITCH)
	if got, want := fmt.Sprint(err), "message 2, at byte 5, is truncated: 5 bytes expected, 1 present"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	longest := strings.Repeat("x", maxMessage)
	for _, c := range []struct {
		name    string
		framing framing
		stream  string
		ok      bool
	}{
		{"longest line", framingLines, "a\n" + longest + "\nb\n", true},
		{"too long line", framingLines, "a\n" + longest + "x\n", false},
		{"longest line without newline", framingLines, longest, true},
		{"too long line without newline", framingLines, longest + "x", false},
		{"longest whole", framingWhole, longest, true},
		{"too long whole", framingWhole, longest + "x", false},
	} {
		msgs, err := cut(strings.NewReader(c.stream), c.framing)
		if (err == nil) != c.ok {
			t.Errorf("%s: error %v, want one: %v", c.name, err, !c.ok)
		}
		if err == nil && join(t, msgs, c.framing) != asWritten(c.stream, c.framing) {
			t.Errorf("%s: the joined messages differ", c.name)
		}
		if err != nil && strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: the error contains the input", c.name)
		}
	}

	broken := errors.New("broken")
	msgs, err := cut(io.MultiReader(strings.NewReader("a\nb\nc"), iotest.ErrReader(broken)), framingLines)
	if !errors.Is(err, broken) || len(msgs) != 2 {
		t.Errorf("broken input: messages %q, error %v, want 2 and %v", msgs, err, broken)
	}
	w := newFrameWriter(io.Discard, framingITCH)
	if err := w.write(make([]byte, 65535)); err != nil {
		t.Error(err)
	}
	if err := w.write(make([]byte, 65536)); err == nil {
		t.Error("a message of 65536 bytes was written as itch")
	}
}

// A message is returned as soon as it is complete, without waiting for more input.
func TestFramingDoesNotWait(t *testing.T) {
	pr, pw := io.Pipe()
	defer pw.Close()
	f := newFrameReader(pr, framingLines)
	go pw.Write([]byte("one\ntw"))
	if msgs, err := f.batch(); err != nil || len(msgs) != 1 || string(msgs[0]) != "one" {
		t.Fatalf("first batch is %q, error %v, want one message %q", msgs, err, "one")
	}
	go pw.Write([]byte("o\n"))
	if msgs, err := f.batch(); err != nil || len(msgs) != 1 || string(msgs[0]) != "two" {
		t.Fatalf("second batch is %q, error %v, want one message %q", msgs, err, "two")
	}
}

func TestFramingAllocations(t *testing.T) {
	testenv.Slow(t)
	var stream strings.Builder
	for i := range 2000 {
		stream.WriteString(join(t, []string{fmt.Sprint("message ", i)}, framingITCH))
	}
	src := strings.NewReader(stream.String())
	r := newFrameReader(src, framingITCH)
	w := newFrameWriter(io.Discard, framingITCH)
	if n := testing.AllocsPerRun(20, func() {
		src.Reset(stream.String())
		r.reset(src)
		for {
			msgs, err := r.batch()
			if err != nil {
				break
			}
			for _, m := range msgs {
				w.write(m)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations for 2000 messages, want none", n)
	}
}

func FuzzFraming(f *testing.F) {
	f.Add([]byte("a\nb"), uint8(0), uint8(1))
	f.Add([]byte("\x00\x03abc\x00\x00"), uint8(1), uint8(3))
	f.Add([]byte("\x00\x03ab"), uint8(1), uint8(7))
	f.Add([]byte("whole\x04"), uint8(2), uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, kind, piece uint8) {
		fr := []framing{framingLines, framingITCH, framingWhole}[kind%3]
		msgs, err := cut(&pieces{stream, int(piece%16) + 1}, fr)
		joined := join(t, msgs, fr)
		if err == nil && joined != asWritten(string(stream), fr) {
			t.Fatalf("%s framing: the stream %q became %q", fr, stream, joined)
		}
		if err != nil && (fr != framingITCH || !bytes.HasPrefix(stream, []byte(joined))) {
			t.Fatalf("%s framing: the stream %q failed with %v after %q, want a prefix of the stream and itch framing", fr, stream, err, joined)
		}
	})
}

// pieces reads n bytes at a time.
type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
