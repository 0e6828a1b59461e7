package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// measured are the metrics of the tree that have limits. Lines are physical lines of files that are not generated.
type measured struct {
	code, tests map[string]int      // lines by package
	terminal    map[string]bool     // packages that use the terminal
	imports     map[string][]string // packages imported from the module, by package
	notGo       int                 // lines of assembler, Lua, Python, JavaScript, C and shell
	importable  map[string]int      // exported names by package, outside internal/ and package main
	types       map[string]map[string]*shape
	passed      int // parameters of core functions that are pointers to a large object
	configs     int // structs named Config
	settings    int // fields of these structs
	long        int // lines over 120 columns, without texts
	comments    int // lines of comments
	inCode      map[string]int
	inDocs      map[string]int
	words       int // words of all documents
}

// shape is the size of a type.
type shape struct {
	spec    *ast.StructType
	methods int
	files   map[string]bool // files with methods of the type
}

// dialect are signs that a sentence lacks a noun or a technical term.
var dialect = map[string]*regexp.Regexp{
	"who":       regexp.MustCompile(`\b[Ww]ho(m|se|ever)?\b`),
	"nobody":    regexp.MustCompile(`\b([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b`),
	"told":      regexp.MustCompile(`\b([Tt]old|[Tt]ell|[Tt]ells|[Tt]elling)\b`),
	"he":        regexp.MustCompile(`\b([Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b`),
	"what goes": regexp.MustCompile(`\b([Ww]hat (becomes|became|comes|came|lies|is there|has gone)|[Ff]or want of|[Ff]or good\b|gives? (it|them) back)\b`),
}

// core are the packages with large objects that only their own methods should access directly.
var core = map[string]bool{"reliable": true, "internal/engine": true, "internal/topics": true}

var large = map[string]bool{"Stream": true, "Receiver": true, "Sender": true, "Loop": true, "Publication": true, "group": true}

func measure(t *testing.T) *measured {
	t.Helper()
	m := &measured{
		imports: map[string][]string{}, terminal: map[string]bool{},
		code: map[string]int{}, tests: map[string]int{}, importable: map[string]int{}, types: map[string]map[string]*shape{},
		inCode: map[string]int{}, inDocs: map[string]int{},
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if name == ".git" || name == "testdata" || name == "node_modules" || name == "cache" {
				return filepath.SkipDir
			}
			return nil
		}
		return m.file(strings.TrimPrefix(filepath.ToSlash(path), "../../"))
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *measured) file(path string) error {
	ext := filepath.Ext(path)
	switch ext {
	case ".md", ".go", ".s", ".lua", ".py", ".js", ".c", ".sh":
	default:
		return nil
	}
	b, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		return err
	}
	src, lines := string(b), strings.Count(string(b), "\n")
	switch ext {
	case ".md":
		m.words += len(strings.Fields(src))
		for name, sign := range dialect {
			m.inDocs[name] += len(sign.FindAllString(src, -1))
		}
		return nil
	case ".go":
		if strings.Contains(src[:min(len(src), 600)], "// Code generated") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") {
			m.tests[dir] += lines
			return nil
		}
		m.code[dir] += lines
		return m.source(path, dir, src)
	default:
		m.notGo += lines
		return nil
	}
}

func (m *measured) source(path, dir, src string) error {
	for l := range strings.Lines(src) {
		if utf8.RuneCountInString(strings.TrimSuffix(l, "\n")) > 120 && !strings.ContainsAny(l, "\"`") {
			m.long++
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, x := range f.Imports {
		if strings.HasPrefix(x.Path.Value, `"charm.land/`) {
			m.terminal[dir] = true
		}
		if name, ours := strings.CutPrefix(strings.Trim(x.Path.Value, `"`), module); ours && !slices.Contains(m.imports[dir], name) {
			m.imports[dir] = append(m.imports[dir], name)
		}
	}
	m.texts(f)
	if m.types[dir] == nil {
		m.types[dir] = map[string]*shape{}
	}
	open := !strings.Contains("/"+dir+"/", "/internal/") && f.Name.Name != "main"
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name
			if core[dir] {
				m.passed += passes(d)
			}
			if id := receiver(d); id != nil {
				x := m.shape(dir, id.Name)
				x.methods++
				x.files[path] = true
				if !id.IsExported() {
					name = id
				}
			}
			m.exported(dir, open, name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						m.exported(dir, open, name)
					}
				case *ast.TypeSpec:
					m.exported(dir, open, s.Name)
					if st, ok := s.Type.(*ast.StructType); ok {
						m.shape(dir, s.Name.Name).spec = st
						if strings.HasSuffix(s.Name.Name, "Config") {
							m.configs++
							m.settings += st.Fields.NumFields()
						}
					}
				}
			}
		}
	}
	return nil
}

// texts counts the lines of comments and the string literals that contain signs of dialect.
func (m *measured) texts(f *ast.File) {
	count := func(text string) {
		for name, sign := range dialect {
			if sign.MatchString(text) {
				m.inCode[name]++
			}
		}
	}
	for _, g := range f.Comments {
		for _, c := range g.List {
			for line := range strings.SplitSeq(c.Text, "\n") {
				m.comments++
				count(line)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if b, ok := n.(*ast.BasicLit); ok && b.Kind == token.STRING {
			count(b.Value)
		}
		return true
	})
}

func (m *measured) exported(dir string, open bool, name *ast.Ident) {
	if open && name.IsExported() {
		m.importable[dir]++
	}
}

func (m *measured) shape(dir, name string) *shape {
	x := m.types[dir][name]
	if x == nil {
		x = &shape{files: map[string]bool{}}
		m.types[dir][name] = x
	}
	return x
}

// names returns the names of all types.
func (m *measured) names() (names []string) {
	for dir, types := range m.types {
		for name := range types {
			names = append(names, dir+"."+name)
		}
	}
	return names
}

// fields counts the fields of a type, including those of contained structs of the same package.
func (m *measured) fields(dir, name string, seen map[string]bool) int {
	x := m.types[dir][name]
	if x == nil || x.spec == nil || seen[name] {
		return 1
	}
	seen[name] = true
	defer delete(seen, name)
	n := 0
	for _, f := range x.spec.Fields.List {
		each := 1
		if id, ok := f.Type.(*ast.Ident); ok {
			each = m.fields(dir, id.Name, seen)
		}
		n += max(1, len(f.Names)) * each
	}
	return n
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) *ast.Ident {
	if d.Recv == nil {
		return nil
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if i, ok := t.(*ast.IndexExpr); ok {
		t = i.X
	}
	id, _ := t.(*ast.Ident)
	return id
}

// passes counts the parameters of a function that are pointers to large objects.
func passes(d *ast.FuncDecl) (n int) {
	for _, p := range d.Type.Params.List {
		s, ok := p.Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		t := s.X
		if q, ok := t.(*ast.SelectorExpr); ok {
			t = q.Sel
		}
		if id, ok := t.(*ast.Ident); ok && large[id.Name] {
			n++
		}
	}
	return n
}
