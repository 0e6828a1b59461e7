package docs

import (
	"encoding/json"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// codeConstant is a numeric constant of a package.
type codeConstant struct {
	value    float64
	text     string
	exported bool
	duration bool
}

// constants returns the constants of packages of the module, by package and name: "wire.MaxSeq".
// Sources are type-checked against the export data of their imports.
func constants(t *testing.T, packages ...string) map[string]codeConstant {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	all := make(map[string]listed)
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(all[path].Export) })
	found := make(map[string]codeConstant)
	for _, name := range packages {
		p := all["github.com/fanfaremq/fanfare/"+name]
		var files []*ast.File
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, n := range checked.Scope().Names() {
			c, ok := checked.Scope().Lookup(n).(*types.Const)
			if !ok || c.Val().Kind() != constant.Int && c.Val().Kind() != constant.Float {
				continue
			}
			v, _ := constant.Float64Val(constant.ToFloat(c.Val()))
			found[path.Base(name)+"."+n] = codeConstant{v, c.Val().String(), c.Exported(), c.Type().String() == "time.Duration"}
		}
	}
	return found
}
