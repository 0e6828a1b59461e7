package pubsub

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// The exported API of this package has no types of internal packages: no exported type is an alias or a definition of
// one or embeds one, and no exported field, constant, parameter or result has one.
func TestAPIHasNoInternalTypes(t *testing.T) {
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("Go files %v, error %v, want at least one", names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		hidden := hiddenPackages(t, file)
		// checkNode fails the test for each name of a hidden package in n.
		checkNode := func(what string, n ast.Node) {
			if n == nil || reflect.ValueOf(n).IsNil() {
				return
			}
			ast.Inspect(n, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && hidden[x.Name] {
						t.Errorf("%s: %s is %s.%s: give it a type of this package", files.Position(sel.Pos()), what, x.Name, sel.Sel.Name)
					}
				}
				return true
			})
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && receiverExported(d) {
					checkNode("a parameter or result of "+d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					checkSpec(spec, d.Tok, checkNode)
				}
			}
		}
	}
}

// hiddenPackages are the names that file uses for internal packages.
func hiddenPackages(t *testing.T, file *ast.File) map[string]bool {
	hidden := make(map[string]bool)
	for _, imp := range file.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(path, "/fanfare/internal/") || strings.HasSuffix(path, "/fanfare/reliable") {
			hidden[path[strings.LastIndexByte(path, '/')+1:]] = true
		}
	}
	return hidden
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}

func checkSpec(spec ast.Spec, tok token.Token, checkNode func(string, ast.Node)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			checkNode("type "+spec.Name.Name, spec.Type)
			return
		}
		for _, f := range s.Fields.List {
			if len(f.Names) == 0 {
				checkNode("the embedded type of "+spec.Name.Name, f.Type)
			}
			for _, name := range f.Names {
				if name.IsExported() {
					checkNode("field "+spec.Name.Name+"."+name.Name, f.Type)
				}
			}
		}
	case *ast.ValueSpec:
		if tok != token.CONST || !spec.Names[0].IsExported() {
			return
		}
		checkNode("the type of "+spec.Names[0].Name, spec.Type)
		for _, v := range spec.Values {
			if _, converted := v.(*ast.CallExpr); !converted {
				checkNode("constant "+spec.Names[0].Name, v)
			}
		}
	}
}
