package groupmap

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// open returns the map of a text; lines are the lines of its table.
func open(t testing.TB, text string, groups int, lines ...string) *Map {
	t.Helper()
	if text == "table" {
		file := filepath.Join(t.TempDir(), "groups")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		text = "table:" + file
	}
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Over(groups)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"": "hash", "hash": "hash", "prefix:1": "prefix:1", "prefix:02": "prefix:2", "prefix:255": "prefix:255",
		"table:/etc/fanfare/groups": "table:/etc/fanfare/groups", "table:a:b": "table:a:b",
	} {
		if s, err := Parse(text); err != nil || s.text() != want {
			t.Errorf("Parse(%q) = %v, error %v, want %v", text, s.text(), err, want)
		}
	}
	for text, want := range map[string]string{
		"hash:":      "must be hash, prefix:K or table:FILE",
		"Hash":       "must be hash",
		"prefix":     "such as prefix:2",
		"prefix:":    "such as prefix:2",
		"prefix:0":   "from 1 to 255",
		"prefix:-1":  "from 1 to 255",
		"prefix:256": "from 1 to 255",
		"prefix:two": "from 1 to 255",
		"table":      "map=table:FILE",
		"table:":     "map=table:FILE",
		"random":     "map=random must be hash",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want one containing %q", text, err, want)
		}
	}
}

// docs/protocol §3.10, §3.14, §3.15: docs/vectors/hashes.json.
func TestVectors(t *testing.T) {
	var v struct {
		Topics []struct {
			Name   string         `json:"name"`
			Groups map[string]int `json:"group_of"`
		} `json:"topics"`
		Mappings []struct {
			Map     string         `json:"map"`
			Groups  int            `json:"groups"`
			Lines   []string       `json:"lines"`
			Mapping uint8          `json:"mapping"`
			Param   uint16         `json:"map_parameter"`
			Of      map[string]int `json:"group_of"`
		} `json:"mappings"`
	}
	testenv.Vectors(t, "hashes.json", &v)
	if len(v.Topics) == 0 || len(v.Mappings) == 0 {
		t.Fatal("hashes.json has no vectors")
	}
	for _, x := range v.Topics {
		for groups, want := range x.Groups {
			n, err := strconv.Atoi(groups)
			if err != nil {
				t.Fatal(err)
			}
			if got := open(t, "hash", n).Group(x.Name); got != want {
				t.Errorf("topic %q is in group %d of %d, want %d", x.Name, got, n, want)
			}
		}
	}
	for _, x := range v.Mappings {
		m := open(t, x.Map, x.Groups, x.Lines...)
		if want := (wire.Mapping{Kind: wire.MappingKind(x.Mapping), Param: x.Param}); m.Wire() != want || m.Len() != x.Groups {
			t.Errorf("%s is announced as %v over %d groups, want %v over %d", x.Map, m.Wire(), m.Len(), want, x.Groups)
		}
		for topic, want := range x.Of {
			if got := m.Group(topic); got != want {
				t.Errorf("%s: topic %q is in group %d of %d, want %d", x.Map, topic, got, x.Groups, want)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	table := []string{"md.xnas.> 0-3", "md.*.trades 4", "orders 7", "log.> 8-9"}
	through := slices.Concat(table, []string{"> 10-11"})
	upTo := func(first, last int) (list []int) {
		for g := first; g <= last; g++ {
			list = append(list, g)
		}
		return list
	}
	all := upTo(0, 15)
	of := func(m *Map, topic string) []int { return []int{m.Group(topic)} }
	hash, two, lines, closed := open(t, "hash", 16), open(t, "prefix:2", 16), open(t, "table", 16, table...), open(t, "table", 16, through...)
	for _, x := range []struct {
		m       *Map
		pattern string
		want    []int
	}{
		{hash, "md.xnas.AAPL", of(hash, "md.xnas.AAPL")},
		{hash, "md.xnas.*", all},
		{hash, ">", all},
		{two, "md.xnas.AAPL", of(two, "md.xnas.MSFT")},
		{two, "md.xnas.*", of(two, "md.xnas.MSFT")},
		{two, "md.xnas.>", of(two, "md.xnas.MSFT.trades")},
		{two, "md.xnas.*.trades", of(two, "md.xnas.MSFT.trades")},
		{two, "md.*.AAPL", all},
		{two, "md.>", all},
		{two, "md.*", all},
		{two, "md", of(two, "md")},
		{lines, "md.xnas.*", upTo(0, 3)},
		{lines, "md.xnas.>", upTo(0, 3)},
		{lines, "md.xnys.trades", []int{4}},
		{lines, "orders", []int{7}},
		{lines, "md.*.trades", upTo(0, 4)}, // the second line covers this pattern
		{lines, "md.>", all},               // some match no line
		{lines, "log.x.*", upTo(8, 9)},
		{closed, "md.>", append(upTo(0, 4), 10, 11)},
		{closed, "news.>", upTo(10, 11)},
		{closed, "*", []int{7, 10, 11}},
		{closed, ">", []int{0, 1, 2, 3, 4, 7, 8, 9, 10, 11}},
	} {
		p, err := pattern.Parse(x.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := x.m.Groups(p); !slices.Equal(got, x.want) {
			t.Errorf("mapping %v: groups of pattern %s: %v, want %v", x.m.Wire(), x.pattern, got, x.want)
		}
	}
}

// A topic that matches a pattern is always in one of the pattern's groups.
func TestGroupsOfRandomPatterns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	draw := func(tokens ...string) string {
		list := make([]string, 1+r.IntN(5))
		for i := range list {
			list[i] = tokens[r.IntN(len(tokens))]
		}
		return strings.Join(list, ".")
	}
	const groups = 64
	for range 50 {
		var lines []string
		seen := make(map[string]bool)
		for len(lines) < 1+r.IntN(20) {
			p := draw("a", "b", "*", ">")
			if _, err := pattern.Parse(p); err != nil || seen[p] {
				continue
			}
			seen[p] = true
			first := r.IntN(groups)
			lines = append(lines, fmt.Sprintf("%s %d-%d", p, first, first+r.IntN(groups-first)))
		}
		for _, m := range []*Map{open(t, "hash", groups), open(t, fmt.Sprint("prefix:", 1+r.IntN(4)), groups), open(t, "table", groups, lines...)} {
			for range 300 {
				p, err := pattern.Parse(draw("a", "b", "*", ">"))
				if err != nil {
					continue
				}
				in := m.Groups(p)
				if !slices.IsSorted(in) || len(slices.Compact(slices.Clone(in))) != len(in) {
					t.Fatalf("pattern %v: groups %v, want them sorted and each once", p, in)
				}
				for range 20 {
					topic := draw("a", "b", "c")
					g := m.Group(topic)
					if g < 0 || g >= groups {
						t.Fatalf("%v: topic %s is in group %d, want one of %d", m.Wire(), topic, g, groups)
					}
					if p.Match(topic) && !slices.Contains(in, g) {
						t.Fatalf("%v %q: %s matches %v and is in group %d, not in %v", m.Wire(), lines, topic, p, g, in)
					}
				}
			}
		}
	}
}

func TestTable(t *testing.T) {
	m := open(t, "table", 64,
		"# exchanges", "", "  md.xnas.>\t0-31   # Nasdaq", "md.*.trades 32\r", "control 63 #", "#> 0", "\t")
	for topic, in := range map[string][2]int{
		"md.xnas.AAPL": {0, 31}, "md.xnas.trades": {0, 31}, "md.xnys.trades": {32, 32}, "control": {63, 63}, "other": {0, 63},
	} {
		if g := m.Group(topic); g < in[0] || g > in[1] {
			t.Errorf("topic %s is in group %d, want one of %d to %d", topic, g, in[0], in[1])
		}
	}
	plain := open(t, "table", 64, "md.xnas.> 0-31", "md.*.trades 32-32", "control 63")
	if plain.Wire() != m.Wire() {
		t.Errorf("comments and spaces change the digest: %v and %v", plain.Wire(), m.Wire())
	}
	for _, lines := range [][]string{
		{"md.*.trades 32", "md.xnas.> 0-31", "control 63"}, {"md.xnas.> 0-31", "md.*.trades 32"}, {"md.xnas.> 0-30", "md.*.trades 32", "control 63"},
	} {
		if other := open(t, "table", 64, lines...); other.Wire() == m.Wire() {
			t.Errorf("%q has the digest of another table", lines)
		}
	}
}

func TestTableErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "groups: the table has no line with a pattern and a group",
		"# nothing\n":               "has no line",
		"md.>":                      "groups:1: a line must have a pattern and a group",
		"md.> 1 2":                  "this one has 3 words",
		"\nmd.> # 3":                "groups:2: a line must have a pattern",
		"md.> x":                    `groups:1: "x" is neither a group nor`,
		"md.> -1":                   `"-1" is neither a group nor`,
		"md.> 1-":                   `"1-" is neither a group nor`,
		"md.> 1-2-3":                `"1-2-3" is neither a group nor`,
		"md.> +1":                   `"+1" is neither a group nor`,
		"md.> 99999999999":          "is neither a group nor",
		"md.> 5-4":                  "the end of the range 5-4 is before its start",
		"md.> 16":                   "there is no group 16: groups are 0 to 15 (groups= in the URL)",
		"md.> 0-16":                 "there is no group 16",
		"a 1\nb 2\nmd.>.x 3":        `groups:3: pattern "md.>.x": > matches all following tokens`,
		"md.x* 1":                   "must be a token by itself",
		"md.> 1\nx 2\nmd.> 3":       "groups:3: line 1 has the same pattern md.>",
		"\xef\xbb\xbfmd.> 1":        "invisible",
		strings.Repeat("a", 70_000): "this one has 1 word",
	} {
		_, err := parseTable("groups", strings.NewReader(text), 16)
		var te *TableError
		if !errors.As(err, &te) || !strings.Contains(err.Error(), want) {
			t.Errorf("table %q: error %v, want a TableError containing %q", text, err, want)
		}
	}
	s, err := Parse("table:" + filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	var te *TableError
	if _, err := s.Over(16); !errors.As(err, &te) || !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), te.File) != 1 {
		t.Errorf("table without a file: error %v, want %v with the file named once", err, fs.ErrNotExist)
	}
	s, _ = Parse("table:" + t.TempDir())
	if _, err := s.Over(16); !errors.As(err, &te) {
		t.Errorf("a directory as table: error %v, want a TableError", err)
	}
	_, err = parseTable("groups", strings.NewReader(strings.Repeat("# comment\n", maxTable/10+1)), 16)
	if err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("a table that is too large: error %v, want the limit of 16777216 bytes", err)
	}
	_, err = parseTable("groups", strings.NewReader(strings.Repeat("x", maxTable+1)), 16)
	if err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("a line that is too large: error %v, want the limit of 16777216 bytes", err)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("md.xnas.> 0-31\nmd.*.trades 32 # comment\n> 33-63", "md.xnas.AAPL")
	f.Add("a 1\na 2", "a")
	f.Fuzz(func(t *testing.T, text, topic string) {
		const groups = 64
		tab, err := parseTable("groups", strings.NewReader(text), groups)
		if err != nil {
			var te *TableError
			if !errors.As(err, &te) {
				t.Fatal(err)
			}
			return
		}
		g, want := tab.group(topic), -1
		for _, x := range tab.lines {
			if x.p.Match(topic) {
				want = x.first + hashed(topic, x.last-x.first+1)
				break
			}
		}
		if want < 0 {
			want = hashed(topic, groups)
		}
		if g != want || g < 0 || g >= groups {
			t.Errorf("%q is in group %d, want %d", topic, g, want)
		}
	})
}

// text returns the text that Parse reads.
func (s Strategy) text() string {
	switch {
	case s.tokens > 0:
		return fmt.Sprintf("prefix:%d", s.tokens)
	case s.file != "":
		return "table:" + s.file
	}
	return "hash"
}
