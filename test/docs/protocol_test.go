package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parts returns the pages of docs/protocol by name.
func parts(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob(root + "/docs/protocol/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages of the protocol: %v", err)
	}
	all := make(map[string]string)
	for _, page := range pages {
		all[filepath.Base(page)] = read(t, page)
	}
	return all
}

// protocol returns the text of docs/protocol.
func protocol(t *testing.T) string {
	t.Helper()
	all := parts(t)
	var b strings.Builder
	for _, page := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(all[page])
	}
	return b.String()
}

// rule matches the beginning of a numbered rule of docs/protocol, section that of a section.
var (
	rule    = regexp.MustCompile(`(?m)^\*\*§(\d+)\.(\d+)\*\*`)
	section = regexp.MustCompile(`(?m)^## (\d+)\. `)
)

// rules returns the ids of all rules in order, and those of all sections.
func rules(t *testing.T) (ids, sections []string) {
	t.Helper()
	text := protocol(t)
	for _, m := range section.FindAllStringSubmatch(text, -1) {
		sections = append(sections, "§"+m[1])
	}
	for _, m := range rule.FindAllStringSubmatch(text, -1) {
		ids = append(ids, "§"+m[1]+"."+m[2])
	}
	if len(ids) == 0 || len(sections) == 0 {
		t.Fatal("found no rules: has their format changed?")
	}
	return ids, sections
}

// Sections are in order, and rules are in the section of their number, in order, each once:
// docs/protocol §1.1. A number may be missing: that of a removed rule is not used again.
func TestRulesAreNumbered(t *testing.T) {
	in := make(map[string]string) // page of each section and rule
	for page, text := range parts(t) {
		for _, m := range append(section.FindAllStringSubmatch(text, -1), rule.FindAllStringSubmatch(text, -1)...) {
			id := strings.Join(m[1:], ".")
			if in[id] != "" {
				t.Errorf("§%s is in %s and in %s", id, in[id], page)
			}
			in[id] = page
		}
		rulesAreNumbered(t, text)
	}
}

func rulesAreNumbered(t *testing.T, text string) {
	t.Helper()
	heads := section.FindAllStringSubmatchIndex(text, -1)
	before := 0
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		number := text[h[2]:h[3]]
		if n, err := strconv.Atoi(number); err != nil || n <= before {
			t.Errorf("section %s follows section %d", number, before)
		} else {
			before = n
		}
		last := 0
		for _, m := range rule.FindAllStringSubmatch(text[h[0]:end], -1) {
			n, err := strconv.Atoi(m[2])
			if err != nil || m[1] != number || n <= last {
				t.Errorf("rule %s.%s is in section %s after rule %d", m[1], m[2], number, last)
			}
			last = n
		}
	}
}

// cited matches a citation of one rule or section, or of several: "protocol §6.3, §6.4". A comment may break before §.
var (
	cited    = regexp.MustCompile("protocol`?(?: |\\n\\s*(?:// |# )?)§\\d+(?:\\.\\d+)?(?:(?:, | and |, and )§\\d+(?:\\.\\d+)?)*")
	citedOne = regexp.MustCompile(`§\d+(?:\.\d+)?`)
)

// Every cited rule and section exists, also within the document.
func TestCitedRulesExist(t *testing.T) {
	ids, sections := rules(t)
	known := slices.Concat(ids, sections)
	n := 0
	sources(t, func(file, text string) {
		for _, m := range cited.FindAllString(text, -1) {
			for _, id := range citedOne.FindAllString(m, -1) {
				if n++; !slices.Contains(known, id) {
					t.Errorf("%s cites protocol %s, which does not exist", file, id)
				}
			}
		}
	})
	if n == 0 {
		t.Error("found no citation: has the format changed?")
	}
	vectors, err := filepath.Glob(root + "/docs/vectors/*.json")
	if err != nil || len(vectors) == 0 {
		t.Errorf("no vectors: %v", err)
	}
	for _, file := range vectors {
		for _, id := range citedOne.FindAllString(read(t, file), -1) {
			if !slices.Contains(known, id) {
				t.Errorf("%s cites %s, which does not exist", file, id)
			}
		}
	}
	inside := regexp.MustCompile(`RFC \d+ §[\d.]*\d`).ReplaceAllString(protocol(t), "")
	inside = strings.ReplaceAll(inside, "§N.M", "")
	for _, id := range citedOne.FindAllString(inside, -1) {
		if !slices.Contains(known, id) {
			t.Errorf("docs/protocol refers to %s, which does not exist", id)
		}
	}
}

// Every rule has a test that cites it by number, not only by section: in the body or the comment of
// a test or fuzz test, or in a script of a test.
func TestRulesHaveTests(t *testing.T) {
	tested := make(map[string]bool)
	cites := func(text string) {
		for _, m := range cited.FindAllString(text, -1) {
			for _, id := range citedOne.FindAllString(m, -1) {
				tested[id] = true
			}
		}
	}
	sources(t, func(file, text string) {
		switch {
		case strings.HasSuffix(file, "_test.go"):
			for _, f := range testFunctions(t, file, text) {
				cites(f)
			}
		case strings.HasPrefix(file, root+"/reliable/testdata/"):
			cites(text)
		}
	})
	ids, _ := rules(t)
	var without []string
	for _, id := range ids {
		if !tested[id] {
			without = append(without, id)
		}
	}
	if len(without) > 0 {
		t.Errorf("%d of %d rules are not cited by any test: %s", len(without), len(ids), strings.Join(without, " "))
	}
}

// testFunctions returns the texts of the tests and fuzz tests of a file, including comments.
func testFunctions(t *testing.T, file, text string) (all []string) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		begin := f.Pos()
		if f.Doc != nil {
			begin = f.Doc.Pos()
		}
		all = append(all, text[fset.Position(begin).Offset:fset.Position(f.End()).Offset])
	}
	return all
}

// Only citations in tests count: not those in code, in a helper, or between functions.
func TestCitationsOutsideOfTestsDoNotCount(t *testing.T) {
	source := strings.ReplaceAll(`package x

// helper: RULE 1.1.
func helper() {} // RULE 1.2

// RULE 1.3

// TestThis: RULE 2.1.
func TestThis(t *testing.T) {
	_ = 1 // RULE 2.2
}

var between = 1 // RULE 1.4

// RULE 2.3.
func FuzzThat(f *testing.F) {}

// RULE 1.5.
func BenchmarkThat(b *testing.B) {}

// RULE 1.6.
func (x *rig) TestMethod() {}
`, "RULE ", "protocol §")
	got := citedOne.FindAllString(strings.Join(testFunctions(t, "x_test.go", source), "\n"), -1)
	if want := []string{"§2.1", "§2.2", "§2.3"}; !slices.Equal(got, want) {
		t.Errorf("cited in tests: %v, want %v", got, want)
	}
}

// Rule numbers are permanent: a new one is at the end of its section, and that of a removed rule is not used again.
// testdata/rules.txt contains the last number used in each section, and the removed ones. docs/protocol §1.1.
func TestRuleNumbersStay(t *testing.T) {
	last, gone := make(map[string]int), make(map[string]bool)
	for line := range strings.Lines(read(t, "testdata/rules.txt")) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		n, err := strconv.Atoi(words[1])
		if err != nil {
			t.Fatalf("rules.txt: %q: %v", line, err)
		}
		last[words[0]] = n
		for _, x := range words[2:] {
			gone["§"+words[0]+"."+x] = true
		}
	}
	ids, _ := rules(t)
	for _, id := range ids {
		chapter, number, _ := strings.Cut(strings.TrimPrefix(id, "§"), ".")
		if n, err := strconv.Atoi(number); err != nil || n > last[chapter] {
			t.Errorf("%s is new: add it to testdata/rules.txt, if it is the next number of section %s after %d", id, chapter, last[chapter])
		}
		if gone[id] {
			t.Errorf("%s was the number of another rule", id)
		}
	}
	for chapter, n := range last {
		for i := 1; i <= n; i++ {
			if id := fmt.Sprintf("§%s.%d", chapter, i); !gone[id] && !slices.Contains(ids, id) {
				t.Errorf("%s was removed: add it to testdata/rules.txt, because its number is not used again", id)
			}
		}
	}
}

// drawing matches the rows of a byte layout.
var drawing = regexp.MustCompile(`(?m)^(?://)?\t(\+[-+]+\+|\|.*)$`)

// The byte layouts of packets are those of internal/wire, row by row: docs/protocol §2.
func TestDrawings(t *testing.T) {
	text := protocol(t)
	files, err := filepath.Glob(root + "/internal/wire/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		var rows []string
		flush := func() {
			if want := strings.Join(rows, "\n"); len(rows) > 0 {
				found++
				if !strings.Contains(text, want) {
					t.Errorf("docs/protocol lacks this layout of %s:\n%s", filepath.Base(file), want)
				}
			}
			rows = nil
		}
		for line := range strings.Lines(read(t, file)) {
			if drawing.MatchString(strings.TrimSuffix(line, "\n")) {
				rows = append(rows, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "//"))
			} else {
				flush()
			}
		}
		flush()
	}
	if found < 9 {
		t.Errorf("found only %d layouts in internal/wire", found)
	}
}

// tableRow is a row of a table of protocol with columns "value" and "code".
type tableRow struct{ what, value, code string }

// tables returns all such rows.
func tables(t *testing.T) (rows []tableRow) {
	t.Helper()
	value, code := -1, -1
	for line := range strings.Lines(protocol(t)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			value, code = -1, -1
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case slices.Contains(cells, "value") && slices.Contains(cells, "code"):
			value, code = slices.Index(cells, "value"), slices.Index(cells, "code")
		case code >= 0 && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, tableRow{cells[0], cells[value], strings.Trim(cells[code], "`")})
		}
	}
	return rows
}

// units are the units of values in the tables, in nanoseconds or as factors.
var units = map[string]float64{"µs": 1e3, "ms": 1e6, "s": 1e9, "h": 3600e9, "KiB": 1 << 10, "MiB": 1 << 20}

// valueOf parses a value of the tables: 5, 0x08, 2^62, 0.01, 100 µs, 8 MiB.
func valueOf(s string) (float64, error) {
	number, unit, _ := strings.Cut(s, " ")
	factor := 1.0
	if unit != "" {
		var ok bool
		if factor, ok = units[unit]; !ok {
			return 0, fmt.Errorf("unknown unit %q", unit)
		}
	}
	if exp, ok := strings.CutPrefix(number, "2^"); ok {
		n, err := strconv.Atoi(exp)
		if err != nil || n > 62 {
			return 0, fmt.Errorf("%q is not a power of two", number)
		}
		return factor * float64(uint64(1)<<n), nil
	}
	if strings.HasPrefix(number, "0x") {
		n, err := strconv.ParseUint(number, 0, 64)
		return factor * float64(n), err
	}
	n, err := strconv.ParseFloat(number, 64)
	return factor * n, err
}

// The tables agree with the constants of the code, and contain all of package wire and all times of
// packages reliable and discovery: docs/protocol §2.18, §20.1.
func TestTables(t *testing.T) {
	code := constants(t, "internal/wire", "reliable", "internal/topics", "internal/discovery", "internal/engine", "transport/udp", "rdma", "rdma/internal/rocev2")
	listed := make(map[string]bool)
	for _, r := range tables(t) {
		if strings.Contains(r.code, "Config.") {
			continue // a default: tested in package pubsub
		}
		want, ok := code[r.code]
		if !ok {
			t.Errorf("%s: unknown constant %s", r.what, r.code)
			continue
		}
		listed[r.code] = true
		got, err := valueOf(r.value)
		if err != nil {
			t.Errorf("%s: value %q: %v", r.what, r.value, err)
		} else if got != want.value {
			t.Errorf("%s: the table has %s, but %s is %s", r.what, r.value, r.code, want.text)
		}
	}
	for name, c := range code {
		public := strings.HasPrefix(name, "wire.") && c.exported
		time := (strings.HasPrefix(name, "reliable.") || strings.HasPrefix(name, "discovery.")) && c.duration
		if (public || time) && !listed[name] && !slices.Contains(localOnly, name) {
			t.Errorf("%s = %s is in no table of docs/protocol", name, c.text)
		}
	}
}

// localOnly are times of this implementation that peers do not observe.
var localOnly = []string{"discovery.reportEvery", "reliable.addressEvery", "discovery.searchCheck"}
