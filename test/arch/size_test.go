package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// What a reader can hold in mind at once. Tests may be longer: they are tables and
// scenes that are read from the top.
const (
	maxFileLines     = 400
	maxFunctionLines = 80
	maxFields        = 25
)

// larger are the structs with more fields, and why.
var larger = map[string]string{
	"pubsub.Config":          "each field is described by itself, and programs name those that they set",
	"pubsub.SenderStats":     "each field is a figure of its own, which metrics export under its name",
	"pubsub.ReceiverStats":   "as SenderStats",
	"reliable.SenderStats":   "as pubsub.SenderStats, which is converted from it",
	"reliable.ReceiverStats": "as pubsub.ReceiverStats, which is converted from it",
}

// No file, function or struct is larger than a reader can hold in mind.
func TestSizes(t *testing.T) {
	seen, files := make(map[string]bool), 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if n := set.File(f.FileStart).LineCount(); n > maxFileLines {
			t.Errorf("%s has %d lines, %d are allowed", path, n, maxFileLines)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				if n := set.Position(x.End()).Line - set.Position(x.Pos()).Line + 1; n > maxFunctionLines {
					t.Errorf("%s: function %s has %d lines, %d are allowed", path, x.Name.Name, n, maxFunctionLines)
				}
			case *ast.TypeSpec:
				s, ok := x.Type.(*ast.StructType)
				if !ok {
					break
				}
				name := strings.TrimSuffix(path, "/"+filepath.Base(path)) + "." + x.Name.Name
				if n := s.Fields.NumFields(); n > maxFields && larger[name] == "" {
					t.Errorf("%s: struct %s has %d fields, %d are allowed: divide it, or say why not in the list of this test", path, x.Name.Name, n, maxFields)
				} else if n > maxFields {
					seen[name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range larger {
		if !seen[name] {
			t.Errorf("%s is not that large any more: take it from the list", name)
		}
	}
	if files < 500 {
		t.Errorf("only %d files were looked at", files)
	}
}
