package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// dictFile makes a dictionary of lines like those that are published.
func dictFile(t *testing.T) (dict, lines string) {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	for i := range 500 {
		fmt.Fprintf(&b, "{\"symbol\":\"ABC%02d\",\"bid\":%d,\"ask\":%d}\n", i%40, 1000+i*7%90, 1010+i*3%90)
	}
	lines, dict = filepath.Join(dir, "lines"), filepath.Join(dir, "dict")
	writeFile(t, lines, b.Bytes())
	r := runWith(testContext(t), "", "dict", "-o", dict, lines)
	if r.code != 0 || !strings.Contains(r.stdout, "COMPRESSION") || !strings.Contains(r.stdout, "zstd:better") || !strings.Contains(r.stderr, ": dictionary ") {
		t.Fatalf("dict ended with %+v, want exit code 0, a table of compressions and the dictionary's line", r)
	}
	return dict, lines
}

// sub with the dictionary receives what pub compressed with it; sub without it has a gap and
// reports which dictionary is missing. docs/protocol §26.5.
func TestDict(t *testing.T) {
	dict, lines := dictFile(t)
	want, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	ctx, url := testContext(t), loopbackURL(t)
	with, without := make(chan result, 1), make(chan result, 1)
	go func() { with <- runWith(ctx, "", "sub", "-until", "end", "-t", url, "-dict", dict, "quotes") }()
	go func() { without <- runWith(ctx, "", "sub", "-until", "end", "-t", url, "-json", "quotes") }()
	pub := runWith(ctx, "", "pub", "-t", url, "-wait", "2", "-compress", "zstd", "-dict", dict, "-file", lines, "quotes")
	if !strings.Contains(pub.stderr, "compressed to 0.") {
		t.Errorf(`pub -compress ended with %+v, want "compressed to 0." in standard error`, pub)
	}
	if r := <-with; r.code != 0 || r.stdout != string(want) {
		t.Errorf("sub with the dictionary: code %d, %d bytes of %d: %s", r.code, len(r.stdout), len(want), r.stderr)
	}
	if r := <-without; r.code != 1 || !strings.Contains(r.stdout, `"type":"dictionary_missing"`) || !strings.Contains(r.stdout, `"type":"gap"`) || !strings.Contains(r.stderr, "-dict") {
		t.Errorf("sub without the dictionary ended with %+v, want exit code 1, the missing dictionary, a gap and advice", r)
	}
}

// Errors in dictionaries are reported before anything is sent.
func TestDictUsage(t *testing.T) {
	dict, lines := dictFile(t)
	short := filepath.Join(t.TempDir(), "short")
	writeFile(t, short, []byte("short"))
	long := filepath.Join(t.TempDir(), "long")
	writeFile(t, long, make([]byte, 3<<20))
	for _, c := range []struct {
		args string
		want string
	}{
		{"pub -dict " + dict + " x", "-dict needs -compress"},
		{"pub -compress lz4 x", "lz4"},
		{"pub -compress zstd:9 x", "zstd:9"},
		{"pub -compress zstd -dict " + dict + " -dict " + dict + " x", "one"},
		{"pub -compress s2:better -dict " + dict + " x", "pub: -compress s2:better must be s2 or zstd"},
		{"sub -dict /no/such/file x", "/no/such/file"},
		{"sub -dict " + short + " x", "5 bytes"},
		{"dict", "no messages given"},
		{"dict -size 7 " + lines, "-size: it must be from 256"},
		{"dict /no/such/file", "/no/such/file"},
		{"pub -file " + os.DevNull + " x", "use standard input, with '< " + os.DevNull + "' instead of -file"},
		{"tap -dict " + short, "5 bytes"},
		{"sub -dict " + long + " x", "more than 1048576 bytes"},
	} {
		r := runWith(testContext(t), "", strings.Fields(c.args)...)
		if r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: code %d, %q, want %q", c.args, r.code, r.stderr, c.want)
		}
	}
}

// dict reads at most -n messages of all files together, reads compressed files, and uses the
// complete messages of a truncated one.
func TestDictFromFiles(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()            // the test mostly waits
	_, lines := dictFile(t) // 500
	plain, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(plain)
	z.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var records bytes.Buffer
	w := newFrameWriter(&records, framingITCH)
	for line := range bytes.Lines(plain) {
		w.write(line)
	}
	w.flush()
	long := bytes.NewBuffer([]byte{0x1f, 0x8b}) // the length of its first message looks like the gzip header
	long.Write(bytes.Repeat([]byte("S"), 0x1f8b))
	long.Write(records.Bytes())
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, b)
		return path
	}
	gz, zst := file("lines.gz", packed.Bytes()), file("lines.zst", enc.EncodeAll(plain, nil))
	for _, c := range []struct{ args, wantText string }{
		{"-n 600 " + lines + " " + lines + " " + lines, "from 600 messages"},
		{"-n 500 " + lines + " " + lines, "from 500 messages"},
		{gz + " " + zst, "from 1000 messages"},
		{file("cut.gz", packed.Bytes()[:packed.Len()-9]), "left out: " + filepath.Join(dir, "cut.gz") + ", after the first "},
		{lines + " " + file("header.gz", packed.Bytes()[:7]), "left out: " + filepath.Join(dir, "header.gz") + ": truncated: unexpected EOF"},
		{lines + " " + file("two.gz", packed.Bytes()[:2]), "left out: " + filepath.Join(dir, "two.gz") + ": truncated: unexpected EOF"},
		{lines + " " + file("header.gz", packed.Bytes()[:7]) + " " + file("header.zst", enc.EncodeAll(plain, nil)[:5]), "header.gz: truncated: unexpected EOF; " + filepath.Join(dir, "header.zst") + ", after the first 0 messages: "},
		{"-framing itch " + file("long.itch", long.Bytes()), "from 501 messages"},
		{"-framing itch " + file("cut.itch", records.Bytes()[:records.Len()-1]), "from 499 messages"},
		{"-framing itch " + file("cut.itch", records.Bytes()[:records.Len()-1]), "after the first 499 messages: message 500, at byte "},
	} {
		if r := runWith(testContext(t), "", strings.Fields("dict "+c.args)...); r.code != 0 || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("dict %s: %+v, want %q", c.args, r, c.wantText)
		}
	}
}

// pub publishes the messages of a compressed file, and nothing of a truncated one. With -framing
// whole the file is sent unchanged.
func TestPubOfCompressedFiles(t *testing.T) {
	plain := strings.Repeat("a line\nand another\n", 500)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(plain))
	z.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	gz := packed.String()
	for name, c := range map[string]struct{ bytes, args, want, wantText string }{
		"lines.gz":   {gz, "", plain, ""},
		"lines.zst":  {string(enc.EncodeAll([]byte(plain), nil)), "", plain, ""},
		"twice.gz":   {gz, "-repeat 2", plain + plain, ""},
		"message.gz": {gz, "-framing whole", gz + "\n", ""},
		"cut.gz":     {gz[:len(gz)-9], "", "", "cut.gz cannot be decompressed after the first "},
		"header.gz":  {gz[:7], "", "", "header.gz cannot be decompressed after the first 0 messages, at byte 0 of its content: unexpected EOF"},
		"check.gz":   {gz[:len(gz)-8] + "wrong" + gz[len(gz)-3:], "", "", "check.gz cannot be decompressed after the first 1000 messages, at byte 9500 of its content: "},
	} {
		t.Run(name, func(t *testing.T) {
			url, path := memURL(t), filepath.Join(t.TempDir(), name)
			writeFile(t, path, []byte(c.bytes))
			if c.wantText != "" {
				if r := runWith(testContext(t), "", "pub", "-t", url, "-file", path, "x"); r.code != exitUsage || !strings.Contains(r.stderr, c.wantText) {
					t.Errorf("pub ended with %+v, want exit code %d and %q in standard error", r, exitUsage, c.wantText)
				}
				return
			}
			sub := start(t, nil, "sub", "-t", url, "-q", "-until", "end", "x")
			start(t, nil, append(strings.Fields("pub -wait 1 -t "+url+" -file "+path+" "+c.args), "x")...).end(t, exitOK)
			sub.end(t, exitOK)
			if got := sub.stdout.String(); got != c.want {
				t.Errorf("%d bytes received, want %d", len(got), len(c.want))
			}
		})
	}
}

// packedPackets returns data packets with one message for each line of the file, ten to a packet,
// compressed with a dictionary.
func packedPackets(t *testing.T, dictFile, lines string) (packets [][]byte) {
	t.Helper()
	read := func(file string) []byte {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	dict, err := compress.NewDictionary(read(dictFile))
	if err != nil {
		t.Fatal(err)
	}
	p, err := compress.New(compress.Spec{Codec: wire.CodecZstd, Level: "better"}, dict)
	if err != nil {
		t.Fatal(err)
	}
	var runs []byte
	for i, line := range strings.Split(strings.TrimSpace(string(read(lines))), "\n") {
		at := len(runs)
		runs = append(runs, make([]byte, wire.RunHeaderLen+wire.MessageHeaderLen+len(line))...)
		wire.PutRun(runs[at:], wire.TopicID("quotes"), []byte(line))
		wire.SetRunNumber(runs[at:], uint64(i))
		if i%10 < 9 {
			continue
		}
		b := make([]byte, wire.DataHeaderLen)
		wire.PutDataHeader(b, wire.Header{GroupTag: wire.GroupTag("239.20.0.0:7400"), Publisher: 0x77, Epoch: 3}, 1472)
		wire.SetSeq(b, uint64(len(packets)))
		b = append(b, p.Pack(make([]byte, 0, topics.PackedRoom), runs)...)
		codec, hash := p.Kind()
		wire.PutPacked(b, &wire.Packed{Codec: codec, Dict: hash, Len: len(runs)})
		packets, runs = append(packets, b), runs[:0]
	}
	return packets
}

// tap reads compressed packets of a capture with their dictionary; without it tap reports which one
// is missing. docs/protocol §26.4, §26.5.
func TestCaptureOfCompressed(t *testing.T) {
	testenv.Slow(t)
	dict, lines := dictFile(t)
	b, err := os.ReadFile(dict)
	if err != nil {
		t.Fatal(err)
	}
	d, err := compress.NewDictionary(b)
	if err != nil {
		t.Fatal(err)
	}
	capture := captureFile(t, packedPackets(t, dict, lines)...)
	run := func(args ...string) result { return runWith(testContext(t), "", args...) }

	if r := run("tap", "-summary", "-r", capture); r.code != 0 || strings.Count(r.stdout, "dictionary: ") != 1 || !strings.Contains(r.stdout, "with dictionary "+d.Name()+": add -dict FILE") ||
		!strings.Contains(r.stdout, "-- 50 data packets compressed with dictionary "+d.Name()) || !strings.Contains(r.stdout, " 0 messages") {
		t.Errorf("tap without the dictionary ended with %+v, want 50 compressed packets and 0 messages", r)
	}
	var sum tapSummary
	r := run("tap", "-summary", "-json", "-r", capture)
	if list := strings.Split(strings.TrimSpace(r.stdout), "\n"); json.Unmarshal([]byte(list[len(list)-1]), &sum) != nil || sum.MissingDicts[d.Name()] != 50 || sum.Streams[0].Unread != 50 {
		t.Errorf("tap -json without the dictionary ended with %+v, want 50 packets without dictionary and unread", r)
	}
	if r := run("tap", "-summary", "-dict", dict, "-r", capture); r.code != 0 || strings.Contains(r.stdout, "dictionary") || !strings.Contains(r.stdout, " 500 messages") {
		t.Errorf("tap with the dictionary ended with %+v, want exit code 0 and 500 messages", r)
	}
}

// Without -force an existing dictionary, which publishers and subscribers may use, is not overwritten.
func TestDictForce(t *testing.T) {
	testenv.Slow(t)
	dict, lines := dictFile(t)
	before, err := os.ReadFile(dict)
	if err != nil {
		t.Fatal(err)
	}
	if r := runWith(testContext(t), "", "dict", "-size", "512", "-o", dict, lines); r.code != 2 || !strings.Contains(r.stderr, dict+" exists") {
		t.Errorf(`dict over an existing file ended with %+v, want exit code 2 and "exists"`, r)
	}
	if after, err := os.ReadFile(dict); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
	if r := runWith(testContext(t), "", "dict", "-q", "-force", "-size", "512", "-o", dict, lines); r.code != 0 || r.stderr != "" {
		t.Errorf("dict -q -force ended with %+v, want exit code 0 and no standard error", r)
	}
	if after, err := os.ReadFile(dict); err != nil || len(after) > 512 {
		t.Errorf("it has %d bytes, %v", len(after), err)
	}
}

// dict trains on published messages, also on compressed ones, and reports a dictionary that it lacks to read them.
func TestDictFromTopics(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	dict, lines := dictFile(t)
	learn := func(listen time.Duration, pubFlags, dictFlags []string) result {
		ctx, url := testContext(t), memURL(t)
		learned := make(chan result, 1)
		go func() {
			learned <- runWith(ctx, "", append(append([]string{"dict", "-t", url, "-for", listen.String(), "-n", "500"}, dictFlags...), "quotes")...)
		}()
		runWith(ctx, "", append(append([]string{"pub", "-t", url, "-wait", "1", "-file", lines}, pubFlags...), "quotes")...)
		return <-learned
	}
	compressed := []string{"-compress", "zstd", "-dict", dict}
	for _, c := range [][2][]string{{nil, nil}, {compressed, {"-dict", dict}}} {
		if r := learn(time.Minute, c[0], c[1]); r.code != 0 || !strings.Contains(r.stderr, "from 500 messages") {
			t.Errorf("pub %v, dict %v: ended with %+v, want exit code 0 and 500 messages", c[0], c[1], r)
		}
	}
	for listen := time.Second; ; listen *= 2 { // until a message was received in that time
		r := learn(listen, compressed, nil)
		if r.code == 1 && strings.Contains(r.stderr, "only 0 messages could be read") && strings.Contains(r.stderr, "with dictionary ") {
			return
		}
		if r.code != 1 || listen > 20*time.Second {
			t.Fatalf("without the dictionary it ended with %+v after %v, want exit code 1 within 20 s", r, listen)
		}
	}
}
