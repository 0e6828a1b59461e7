package dissect

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
)

type vector struct {
	Name   string
	Hex    string
	Header map[string]any
	Fields map[string]any
}

func vectors(t testing.TB) []vector {
	t.Helper()
	var raw struct {
		Packets []struct {
			Name, Hex      string
			Header, Fields json.RawMessage
		}
	}
	testenv.Vectors(t, "packets.json", &raw)
	var all []vector
	for _, p := range raw.Packets {
		all = append(all, vector{p.Name, p.Hex, object(t, p.Header), object(t, p.Fields)})
	}
	return all
}

// object reads a JSON object without rounding its numbers.
func object(t testing.TB, b []byte) (m map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatalf("decoding the JSON text %s: %v", b, err)
	}
	return m
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// differ lists the differences between the fields of a vector and those of the package. Names and tags are hexadecimal
// in vectors, and ids are numbers; an empty list of messages is omitted there.
func differ(path string, want, got any) (list []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, want an object", path, got)}
		}
		for name, x := range w {
			y, ok := g[name]
			if !ok {
				list = append(list, path+"."+name+" is missing")
				continue
			}
			if text, ok := x.(string); ok && (name == "name" || name == "tag") {
				b, _ := hex.DecodeString(text)
				x = wire.CleanName(b)
			}
			if _, number := y.(json.Number); number && name == "group_tag" {
				list = append(list, path+".group_tag is a number, want text")
			}
			list = append(list, differ(path+"."+name, x, y)...)
		}
		for name, y := range g {
			if _, ok := w[name]; !ok && !(name == "messages" && len(y.([]any)) == 0) {
				list = append(list, path+"."+name+" is not in the vector")
			}
		}
		return list
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{fmt.Sprintf("%s has %d elements, want %d", path, len(g), len(w))}
		}
		for i := range w {
			list = append(list, differ(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return list
	}
	if n, ok := want.(json.Number); ok && got != want {
		id, _ := strconv.ParseUint(string(n), 10, 64)
		if want = fmt.Sprintf("%016x", id); len(fmt.Sprint(got)) == 8 { // a hash
			want = fmt.Sprintf("%08x", id)
		}
	}
	if want != got {
		return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
	}
	return nil
}

// Every field of every vector has its name and its value, and there are no others. docs/protocol §21.1.
func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		p := Read(unhex(t, v.Hex))
		if p.Err != nil {
			t.Errorf("%s: Read: %v", v.Name, p.Err)
		}
		got := object(t, append(p.JSON([]byte("{"), nil), '}'))
		for _, d := range append(differ("header", v.Header, got["header"]), differ("fields", v.Fields, got["fields"])...) {
			t.Errorf("%s: difference: %s", v.Name, d)
		}
	}
}

// names knows one topic.
type names struct{}

func (names) TopicName(id uint64) string {
	if id == 1 {
		return "a \x1b[31m"
	}
	return ""
}

// One line per packet, with quoted names, and long lists truncated.
func TestText(t *testing.T) {
	for _, v := range vectors(t) {
		p := Read(unhex(t, v.Hex))
		line := string(p.Text(nil, names{}))
		if strings.ContainsAny(line, "\n\x1b") || !strings.HasPrefix(line, "version=1 type="+fmt.Sprint(p.Type)+" flags=") {
			t.Errorf("%s: text %q, want one printable line with version, type and flags", v.Name, line)
		}
	}
	head := wire.Header{Publisher: 1, Epoch: 2, Flags: wire.FlagWantTopics | wire.FlagLeaving}
	b := wire.AppendStatus(nil, head, &wire.Status{Receiver: 0xabc, Next: 7, Limit: 9, Since: 5, Question: 3, Name: []byte("x\x1b[31m")}, []uint64{1, 2, 3, 4, 5, 6})
	p := Read(b)
	const want = `version=1 type=status flags=leaving|want_topics group_tag=00000000 checksum=00000000 publisher=0000000000000001 epoch=0000000000000002 ` +
		`receiver_id=0000000000000abc next=7 limit=9 echo=0 echo_delay_ns=0 lost=0 unread=0 since=5 question=3 ` +
		`topic_ids=[0000000000000001 0000000000000002 0000000000000003 0000000000000004 and 2 more] name="x\x1b[31m"`
	if got := string(p.Text(nil, names{})); got != want {
		t.Errorf("text %s, want %s", got, want)
	}
	run := append(make([]byte, wire.DataHeaderLen), make([]byte, wire.RunHeaderLen+wire.MessageHeaderLen+2)...)
	wire.PutDataHeader(run, head, 512)
	wire.PutRun(run[wire.DataHeaderLen:], 1, []byte("hi"))
	p = Read(run)
	if got := string(p.Text(nil, names{})); !strings.HasSuffix(got, `sequence=0 packet_size=512 runs=[{kind=messages run_flags=0 topic_id=0000000000000001 topic="a \x1b[31m" number=0 messages=1 (2 bytes)}]`) {
		t.Errorf("text of the packet: %s, want one run with topic a\\x1b[31m quoted at its end", got)
	}
	if got := string(p.JSON(nil, names{})); !strings.Contains(got, `"topic_id":"0000000000000001","topic":"\"a \\x1b[31m\""`) {
		t.Errorf("JSON of the packet: %s, want topic 1 with its name quoted", got)
	}
}

// The begin of an index round has its answers, also for receiver ids that begin with a zero byte, and its end none.
func TestTextOfIndexRuns(t *testing.T) {
	round := wiretest.Index(wire.IndexBegins|wire.IndexAll, 7, 0xab00, 2, 1, 0)
	p := Read(wiretest.Data(4, append(round, wiretest.Index(wire.IndexEnds, 6)...)))
	const want = `runs=[{kind=index run_flags=0 topic_id=0000000000000000 number=7 index={marks=begins|all answers=[{receiver_id=000000000000ab00 question=2} {receiver_id=0000000000000001 question=0}]}} ` +
		`{kind=index run_flags=0 topic_id=0000000000000000 number=6 index={marks=ends answers=[]}}]`
	if got := string(p.Text(nil, nil)); !strings.HasSuffix(got, want) || p.Err != nil || !p.Whole {
		t.Errorf("text %s, error %v, want %s at its end", got, p.Err, want)
	}
	const fields = `"index":{"marks":5,"answers":[{"receiver_id":"000000000000ab00","question":2},{"receiver_id":"0000000000000001","question":0}]}`
	if got := string(p.JSON(nil, nil)); !strings.Contains(got, fields) {
		t.Errorf("JSON %s, want %s", got, fields)
	}
}

// Truncated or damaged packets are read up to the damage, and the error of package wire describes it.
func TestDamaged(t *testing.T) {
	for _, v := range vectors(t) {
		b := unhex(t, v.Hex)
		for n := range b {
			p := Read(b[:n])
			if (len(p.Header) > 0) != (n >= wire.HeaderLen) {
				t.Fatalf("%s truncated to %d bytes: %d fields of the header", v.Name, n, len(p.Header))
			}
			if n < wire.HeaderLen && !errors.Is(p.Err, wire.ErrShort) {
				t.Errorf("%s truncated to %d bytes: error %v, want %v", v.Name, n, p.Err, wire.ErrShort)
			}
		}
	}
	b := unhex(t, vectors(t)[0].Hex)
	for _, c := range []struct {
		at     int
		value  byte
		err    error
		header bool
		fields bool
	}{
		{0, 'G', wire.ErrForeign, true, false},
		{2, 2, wire.ErrVersion, true, false},
		{3, 99, wire.ErrType, true, false},
		{6, 1, wire.ErrUnsupported, true, true},
		{4, byte(wire.FlagChecksum), wire.ErrChecksum, true, true},
		{48, 9, wire.ErrUnsupported, true, true},
		{3, 3, wire.ErrType, true, false},
	} {
		x := bytes.Clone(b)
		x[c.at] = c.value
		p := Read(x)
		if !errors.Is(p.Err, c.err) || (len(p.Header) > 0) != c.header || (len(p.Fields) > 0) != c.fields {
			t.Errorf("byte %d = %#x: error %v, %d fields of the header, %d others, want %v, header %v, others %v", c.at, c.value, p.Err, len(p.Header), len(p.Fields), c.err, c.header, c.fields)
		}
	}
}

// All bytes are shown on one line and as JSON. Packets that receivers accept are read completely.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := Read(b)
		line := string(p.Text(nil, nil))
		if strings.ContainsAny(line, "\n\x1b") {
			t.Errorf("text of a packet %q, want no control characters", line)
		}
		if !json.Valid(append(p.JSON([]byte("{"), nil), '}')) {
			t.Errorf("JSON of a packet: %s, want valid JSON", p.JSON(nil, nil))
		}
		if p.Err == nil && !p.Whole {
			t.Errorf("a valid packet was read only in part: %s", line)
		}
	})
}
