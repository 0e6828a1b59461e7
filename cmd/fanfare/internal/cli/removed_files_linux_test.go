package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A publisher or subscriber over shared memory whose files are removed reports what was removed and
// a remedy, and continues.
func TestUndiscoverableIsReported(t *testing.T) {
	testenv.Slow(t)
	dir, err := os.MkdirTemp("/dev/shm", "fanfare-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	url := "shm://output?dir=" + dir
	sub := start(t, nil, "sub", "-t", url, "x")
	pub := start(t, strings.NewReader(strings.Repeat("x\n", 1_000_000)), "pub", "-t", url, "-wait", "1", "-rate", "1000", "x")
	await(t, "a message", func() bool { return sub.stdout.String() != "" })
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of the fabric %q, error %v, want 1 file", files, err)
	}
	if err := os.RemoveAll(files[0]); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*running{sub, pub} {
		const wantText = "was removed or renamed: new processes can no longer discover this one; existing connections continue: restart it, and ensure that no program removes files in "
		await(t, wantText, func() bool { return strings.Contains(r.stderr.String(), wantText+dir) })
	}
	n := len(sub.stdout.String())
	await(t, "more messages", func() bool { return len(sub.stdout.String()) > n })
	for _, r := range []*running{pub, sub} {
		r.cancel(nil)
		<-r.done
	}
	if n := strings.Count(sub.stderr.String(), "was removed"); n != 1 {
		t.Errorf("the removal is reported %d times, want once: %s", n, sub.stderr.String())
	}
}
