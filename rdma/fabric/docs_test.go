package fabric

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// The tests that docs/rdma.md names exist.
func TestDocumentedTestsExist(t *testing.T) {
	doc, err := os.ReadFile("../../docs/rdma.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	for _, dir := range []string{"rdma", "transport", "pubsub", "internal", "test"} {
		addTests(t, tests, filepath.Join("../..", dir))
	}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(doc), -1) {
		if !tests[name] {
			t.Errorf("docs/rdma.md names %s, which does not exist", name)
		}
	}
	statements := rdmatest.Statements()
	for i, s := range statements {
		if s.Num != i+1 {
			t.Fatalf("statement %d has number %d", i+1, s.Num)
		}
	}
	for _, name := range regexp.MustCompile(`\bS(\d{3})\b`).FindAllStringSubmatch(string(doc), -1) {
		if n, _ := strconv.Atoi(name[1]); n < 1 || n > len(statements) {
			t.Errorf("docs/rdma.md names statement %s, which does not exist", name[0])
		}
	}
}

// addTests adds the names of all tests in a directory and below, whatever their build tags.
func addTests(t *testing.T, tests map[string]bool, dir string) {
	t.Helper()
	test := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(\w+ \*testing\.T\)`)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range test.FindAllSubmatch(src, -1) {
			tests[string(m[1])] = true
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("tests below %s: %d files, error %v, want some", dir, files, err)
	}
}
