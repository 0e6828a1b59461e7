package dissect

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// drawn has the parts in the order of the drawings in docs/protocol §2.
var drawn = []*Part{Header, data, run, heartbeat, answered, ranges, status, hello, reply, recall, recalled, state, timing}

// answered is an index run's body with one answer, as it is drawn.
var answered = withAnswer()

func withAnswer() *Part {
	p := &Part{Name: "index", Len: index.Len + answer.Len, Fields: slices.Clone(index.Fields)}
	for _, f := range answer.Fields {
		f.At += index.Len
		p.Fields = append(p.Fields, f)
	}
	return p
}

// cell is a box of a drawing.
type cell struct {
	title    string
	at, size int // bytes
}

// drawings reads the drawings of docs/protocol §2.
func drawings(t *testing.T) (all [][]cell) {
	t.Helper()
	b, err := os.ReadFile("../../docs/protocol/core.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n## 2. ")
	text, _, _ = strings.Cut(text, "\n## 3. ")
	row := regexp.MustCompile(`^\t(\|.{31}(?:.{32})?\|) *([0-9]*)$`)
	within, next := false, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "\t") {
			within = false
			continue
		}
		if !within {
			all, within, next = append(all, nil), true, 0
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		at := next
		if m[2] != "" {
			at, _ = strconv.Atoi(m[2])
		}
		for box := range strings.SplitSeq(strings.Trim(m[1], "|"), "|") {
			size := (len(box) + 1) / 8
			all[len(all)-1] = append(all[len(all)-1], cell{strings.TrimSpace(box), at, size})
			at += size
		}
		next = at
	}
	return all
}

// Every box of a drawing is a field of the table at the same offset, and every drawn field has its box: docs/protocol
// §2.6, §2.9, §2.10, §2.13 to §2.24.
func TestTableMatchesDrawings(t *testing.T) {
	all := drawings(t)
	if len(all) != len(drawn) {
		t.Fatalf("protocol has %d drawings, the table has %d parts, want equal numbers", len(all), len(drawn))
	}
	for i, p := range drawn {
		found := make(map[string]bool)
		for _, c := range all[i] {
			if c.title == "0" || strings.HasSuffix(c.title, "(high)") || strings.HasPrefix(c.title, "body:") {
				continue
			}
			f := fieldDrawn(p, c.title)
			switch {
			case f == nil:
				t.Errorf("%s: the box %q is not a field of the table", p.Name, c.title)
				continue
			case f.At == Behind:
				if c.at < p.Len {
					t.Errorf("%s.%s is drawn at %d, before the part's end at %d", p.Name, f.Name, c.at, p.Len)
				}
			case f.At != c.at, f.Size != c.size && f.Size < 64 && !(strings.HasSuffix(c.title, "(low)") && f.Size == 8):
				t.Errorf("%s.%s is at %d with %d bytes, drawn at %d with %d", p.Name, f.Name, f.At, f.Size, c.at, c.size)
			}
			found[c.title] = true
		}
		for _, f := range p.Fields {
			if f.Drawn != "" && !found[f.Drawn] {
				t.Errorf("%s.%s: no box is called %q", p.Name, f.Name, f.Drawn)
			}
			if f.Means == "" {
				t.Errorf("%s.%s has no description", p.Name, f.Name)
			}
		}
	}
}

func fieldDrawn(p *Part, title string) *Field {
	for i := range p.Fields {
		if p.Fields[i].Drawn == title {
			return &p.Fields[i]
		}
	}
	return nil
}

// The code points of the table have the names and values of docs/protocol §2.
func TestCodePoints(t *testing.T) {
	b, err := os.ReadFile("../../docs/protocol/core.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]*Field{
		"Type": fieldDrawn(Header, "type"), "Flag": fieldDrawn(Header, "flags"), "Run": fieldDrawn(run, "kind"), "RunFlag": fieldDrawn(run, "flags"),
		"Reason": fieldDrawn(ranges, "reason"), "Mapping": fieldDrawn(heartbeat, "mapping"), "Checksum": fieldDrawn(hello, "checks."),
	}
	found := make(map[*Field]int)
	row := regexp.MustCompile("(?m)^\\| (?:[a-z]+: )?([^|]+) \\| ([0-9a-fx]+) \\| `wire\\.(Type|Flag|RunFlag|Run|Reason|Mapping|Checksum)([A-Za-z0-9]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(string(b), -1) {
		if strings.HasSuffix(m[4], "Len") {
			continue
		}
		value, err := strconv.ParseUint(m[2], 0, 64)
		want := Code{Value: value, Name: strings.ReplaceAll(m[1], " ", "_")}
		f := fields[m[3]]
		found[f]++
		if !slices.ContainsFunc(append(f.Codes, f.Bits...), func(c Code) bool { return c.Value == want.Value && strings.EqualFold(c.Name, want.Name) }) || err != nil {
			t.Errorf("%s has no %v", f.Name, want)
		}
	}
	for _, f := range fields {
		if n := len(f.Codes) + len(f.Bits); found[f] != n {
			t.Errorf("%s has %d code points, protocol has %d", f.Name, n, found[f])
		}
	}
}

// Every type has a part, and lengths, counts and code points refer to fields of the table.
func TestTableIsConsistent(t *testing.T) {
	for typ := wire.TypeData; typ <= wire.LastType; typ++ {
		if (Body(typ) != nil) != typ.Known() {
			t.Errorf("%v has a part: %t, want %t", typ, Body(typ) != nil, typ.Known())
		}
	}
	if Body(0) != nil || Body(wire.LastType+1) != nil {
		t.Error("an undefined type has a part")
	}
	for _, p := range append(drawn, fragment, index, answer) {
		names := make(map[string]bool)
		for _, f := range p.Fields {
			if f.Count != "" && !names[f.Count] {
				t.Errorf("%s.%s is counted by %s, which is not before it", p.Name, f.Name, f.Count)
			}
			if names[f.Name] {
				t.Errorf("%s.%s is duplicate", p.Name, f.Name)
			}
			if f.At != Behind && f.At+f.Size > p.Len {
				t.Errorf("%s.%s ends after the part", p.Name, f.Name)
			}
			names[f.Name] = true
		}
		if p.Body != "" && !names[p.Body] {
			t.Errorf("%s has no field %s", p.Name, p.Body)
		}
	}
}
