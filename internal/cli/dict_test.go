package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if err := os.WriteFile(lines, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	r := runWith(testContext(t), "", "dict", "-o", dict, lines)
	if r.code != 0 || !strings.Contains(r.stdout, "COMPRESSION") || !strings.Contains(r.stdout, "zstd:better") || !strings.Contains(r.stderr, "is dictionary ") {
		t.Fatalf("dict: %+v", r)
	}
	return dict, lines
}

// What pub compresses with a dictionary comes to sub that has it; one that does not has a gap,
// and is told which dictionary it lacks. docs/protocol.md §26.5.
func TestDict(t *testing.T) {
	dict, lines := dictFile(t)
	want, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	ctx, url := testContext(t), loopbackURL(t)
	with, without := make(chan result, 1), make(chan result, 1)
	go func() { with <- runWith(ctx, "", "sub", "-t", url, "-dict", dict, "quotes") }()
	go func() { without <- runWith(ctx, "", "sub", "-t", url, "-json", "quotes") }()
	pub := runWith(ctx, "", "pub", "-t", url, "-wait", "2", "-compress", "zstd", "-dict", dict, "-file", lines, "quotes")
	if !strings.Contains(pub.stderr, "compressed to 0.") {
		t.Errorf("pub: %+v", pub)
	}
	if r := <-with; r.code != 0 || r.stdout != string(want) {
		t.Errorf("sub with the dictionary: code %d, %d bytes of %d: %s", r.code, len(r.stdout), len(want), r.stderr)
	}
	if r := <-without; r.code != 1 || !strings.Contains(r.stdout, `"type":"dictionary_missing"`) || !strings.Contains(r.stdout, `"type":"gap"`) || !strings.Contains(r.stderr, "-dict") {
		t.Errorf("sub without the dictionary: %+v", r)
	}
}

// What is wrong with a dictionary is said before anything is sent.
func TestDictUsage(t *testing.T) {
	dict, lines := dictFile(t)
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("short"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"pub -dict " + dict + " x", "-dict goes with -compress"},
		{"pub -compress lz4 x", "lz4"},
		{"pub -compress zstd:9 x", "zstd:9"},
		{"pub -compress zstd -dict " + dict + " -dict " + dict + " x", "one"},
		{"pub -compress s2:better -dict " + dict + " x", "without a dictionary"},
		{"sub -dict /no/such/file x", "/no/such/file"},
		{"sub -dict " + short + " x", "5 bytes"},
		{"dict", "nothing to learn from"},
		{"dict -r x.pcap " + lines, "-r takes no files"},
		{"dict -size 7 " + lines, "-size 7"},
		{"dict /no/such/file", "/no/such/file"},
		{"tap -dict " + short, "5 bytes"},
	} {
		r := runWith(testContext(t), "", strings.Fields(c.args)...)
		if r.code != 2 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: code %d, %q, want %q", c.args, r.code, r.stderr, c.want)
		}
	}
}
