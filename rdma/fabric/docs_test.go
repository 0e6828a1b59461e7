package fabric

import (
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
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "../*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(src)
		}
	}
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(string(doc), -1) {
		if !strings.Contains(code.String(), "func "+name+"(t *testing.T)") {
			t.Errorf("there is no %s", name)
		}
	}
	statements := rdmatest.Statements()
	for i, s := range statements {
		if s.Num != i+1 {
			t.Fatalf("statement %d is number %d", i+1, s.Num)
		}
	}
	for _, name := range regexp.MustCompile(`\bS(\d{3})\b`).FindAllStringSubmatch(string(doc), -1) {
		if n, _ := strconv.Atoi(name[1]); n < 1 || n > len(statements) {
			t.Errorf("there is no statement %s", name[0])
		}
	}
}
