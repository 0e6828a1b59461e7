package reliable

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// The core imports no package with side effects.
func TestDependenciesArePure(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		testenv.Skip(t, "go list: %v", err) // a test binary without the sources
	}
	ours := map[string]bool{
		"github.com/fanfaremq/fanfare/reliable":          true,
		"github.com/fanfaremq/fanfare/internal/wire":     true,
		"github.com/fanfaremq/fanfare/internal/ring":     true,
		"github.com/fanfaremq/fanfare/internal/crc":      true,
		"github.com/fanfaremq/fanfare/internal/prefetch": true, // affects only speed
		"github.com/fanfaremq/fanfare/internal/pattern":  true,
		"github.com/fanfaremq/fanfare/internal/plural":   true,
		"github.com/fanfaremq/fanfare/pubsub/events":     true, // types of events for users
		"github.com/fanfaremq/fanfare/pubsub/stats":      true, // types of statistics for users
		"github.com/fanfaremq/fanfare/transport":         true, // only the type of trains
		"golang.org/x/sys/cpu":                           true, // processor features, for internal/crc
	}
	for p := range strings.FieldsSeq(string(out)) {
		if !ours[p] {
			t.Errorf("depends on %s", p)
		}
	}
	pure := map[string]bool{
		"cmp":             true,
		"encoding/binary": true, "errors": true, "fmt": true, "hash/crc32": true, "math": true,
		"math/bits": true, "math/rand/v2": true, "slices": true, "strconv": true, "sync/atomic": true, "time": true, "unicode": true, "unicode/utf8": true,
	}
	eachFile(t, func(name string, f *ast.File) {
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); !pure[p] && !ours[p] {
				t.Errorf("%s imports %s", name, p)
			}
		}
	})
}

// The core reads no clock, uses no randomness except what it is passed, starts no goroutine and never blocks.
func TestSourcesArePure(t *testing.T) {
	banned := map[string]string{
		"time.Now": "", "time.Since": "", "time.Until": "", "time.Sleep": "", "time.After": "", "time.AfterFunc": "",
		"time.NewTimer": "", "time.NewTicker": "", "time.Tick": "",
	}
	eachFile(t, func(name string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", name)
			case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s uses channels", name)
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if !ok {
					break
				}
				if _, bad := banned[x.Name+"."+n.Sel.Name]; bad {
					t.Errorf("%s uses %s.%s", name, x.Name, n.Sel.Name)
				}
				if x.Name == "transport" && n.Sel.Name != "Outbound" {
					t.Errorf("%s uses transport.%s: the core may only use the type of trains", name, n.Sel.Name)
				}
				if x.Name == "rand" && n.Sel.Name != "Rand" {
					t.Errorf("%s uses rand.%s, not the source passed to it", name, n.Sel.Name)
				}
			}
			return true
		})
	})
}

// eachFile calls visit with the sources of the core and of its dependencies.
func eachFile(t *testing.T, visit func(name string, f *ast.File)) {
	for _, dir := range []string{".", "../internal/wire", "../internal/ring", "../internal/ring", "../internal/crc"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no sources in %s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			visit(name, f)
		}
	}
}
