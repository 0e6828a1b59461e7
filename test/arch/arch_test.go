// Package arch checks the project's structure, such as which packages may depend on each other (docs/architecture.md).
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fanfaremq/fanfare/"

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

// leaves returns the packages of the first section, which every package may import.
func leaves() (names []string) {
	for _, p := range packages {
		if p.name == "rdma" {
			break
		}
		names = append(names, p.name)
	}
	return names
}

// A package imports only what its row of packages permits, on every system, and is no longer than its limit.
func TestPackages(t *testing.T) {
	m := measure(t)
	var above []string
	for _, p := range packages {
		allowed := strings.Fields(p.imports)
		imports := m.imports[p.name]
		for _, name := range imports {
			if !slices.Contains(above, name) {
				t.Errorf("%s imports %s, which is not above it in the table", p.name, name)
			}
			if !slices.Contains(leaves(), name) && !slices.ContainsFunc(allowed, func(p string) bool { return match(p, name) }) {
				t.Errorf("%s imports %s, which its row does not permit", p.name, name)
			}
		}
		for _, pattern := range allowed {
			if !slices.ContainsFunc(imports, func(name string) bool { return match(pattern, name) }) {
				t.Errorf("%s does not import %s any more: remove it from its row", p.name, pattern)
			}
		}
		within(t, "lines of "+p.name, m.code[p.name], p.lines, 50)
		above = append(above, p.name)
	}
	for name := range m.code {
		if !slices.Contains(above, name) && !strings.HasPrefix(name, "test/") && !slices.Contains(modules, name) {
			t.Errorf("%s has no row in packages: add it there and to docs/architecture.md", name)
		}
	}
}

// modules are separate Go modules.
var modules = []string{"bench/peers", "contrib/gocloud", "contrib/otel", "contrib/watermill"}

func match(pattern, pkg string) bool {
	prefix, all := strings.CutSuffix(pattern, "/...")
	return pattern == pkg || all && strings.HasPrefix(pkg, prefix+"/")
}

// Only the commands use the terminal.
func TestTerminalOnlyInCommands(t *testing.T) {
	m := measure(t)
	if len(m.terminal) == 0 {
		t.Error("no package uses the terminal: the test searches for the wrong name")
	}
	for name := range m.terminal {
		if !strings.HasPrefix(name, "cmd/fanfare/internal/") {
			t.Errorf("%s imports charm.land, which only the commands may import", name)
		}
	}
}

// The core is deterministic: no clock, no I/O, no goroutine, no global randomness.
func TestCoreIsPure(t *testing.T) {
	for _, dir := range []string{"reliable", "internal/topics", "internal/discovery", "internal/wire", "internal/ring", "internal/slow"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range f.Imports {
				path := strings.Trim(imp.Path.Value, `"`)
				if slices.Contains([]string{"net", "os", "syscall", "log", "log/slog", "context", "sync", "crypto/rand", "math/rand", "unsafe"}, path) || strings.HasPrefix(path, "golang.org/") {
					t.Errorf("%s imports %s", file, path)
				}
			}
			for _, word := range []string{"time.Now(", "time.Since(", "time.After", "time.NewTimer(", "time.Sleep(", "rand.IntN(", "rand.Float64(", "\tgo func", "\tgo "} {
				if strings.Contains(string(src), word) {
					t.Errorf("%s uses %q", file, strings.TrimSpace(word))
				}
			}
		}
	}
}

// A single small package uses cgo.
func TestCgoInOnePackage(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			if imp.Path.Value != `"C"` {
				continue
			}
			found++
			if filepath.ToSlash(filepath.Dir(path)) != "../../rdma/verbs/internal/cverbs" {
				t.Errorf("%s imports C", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no file with cgo found: the test searches in the wrong place")
	}
}

// Programs that only publish and subscribe do not depend on net/http.
func TestNoHTTP(t *testing.T) {
	for _, pkg := range []string{"pubsub", "internal/inspect"} {
		if slices.Contains(goList(t, "-deps", "./"+pkg), "net/http") {
			t.Errorf("%s depends on net/http", pkg)
		}
	}
}

// The command links no package with large tables of pointers: the garbage collector scans them in
// each cycle, in each process. docs/decisions, 34.
func TestNoTables(t *testing.T) {
	if slices.Contains(goList(t, "-deps", "./cmd/fanfare"), "github.com/gopacket/gopacket/layers") {
		t.Error("cmd/fanfare depends on gopacket/layers, which has 5 MB of pointers in tables")
	}
}

// gofmt is a test, so that `go test ./...` is enough.
func TestFormatted(t *testing.T) {
	out, err := exec.Command("gofmt", "-l", "../..").CombinedOutput()
	if err != nil {
		t.Fatalf("gofmt: %v\n%s", err, out)
	}
	if files := strings.TrimSpace(string(out)); files != "" {
		t.Errorf("gofmt would change:\n%s", files)
	}
}
