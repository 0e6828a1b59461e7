package pattern

import (
	"errors"
	"strings"
	"testing"
)

func mustParse(t testing.TB, text string) Pattern {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// docs/protocol §3.13.
func TestParse(t *testing.T) {
	for _, x := range []struct {
		text    string
		wild    bool
		literal int
	}{
		{"a", false, 1},
		{"md.xnas.AAPL", false, 3},
		{"quotes.€", false, 2},
		{"*", true, 0},
		{">", true, 0},
		{"md.*", true, 1},
		{"md.>", true, 1},
		{"md.*.AAPL", true, 1},
		{"md.xnas.>", true, 2},
		{"*.*.>", true, 0},
		{strings.Repeat("x", MaxLen), false, 1},
		{strings.Repeat("*.", MaxLen/2) + ">", true, 0},
	} {
		p, err := Parse(x.text)
		if err != nil {
			t.Errorf("Parse(%q): %v", x.text, err)
			continue
		}
		if p.String() != x.text || p.Wild() != x.wild || p.Literal() != x.literal {
			t.Errorf("%q: pattern %q, wild %v, %d literal tokens, want wild %v and %d", x.text, p, p.Wild(), p.Literal(), x.wild, x.literal)
		}
		if q := mustParse(t, x.text); p != q {
			t.Errorf("%q: two of the same text are not equal", x.text)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `pattern "": it is empty`,
		strings.Repeat("x", MaxLen+1):  "it is longer than 255 bytes",
		strings.Repeat("é", MaxLen):    "it is longer than 255 bytes",
		".":                            "it has an empty token",
		"a.":                           "it has an empty token",
		".a":                           "it has an empty token",
		"a..b":                         `pattern "a..b": it has an empty token: tokens are separated by single dots`,
		"*.":                           "it has an empty token",
		">.":                           "> matches all following tokens, and must be the last one",
		">.a":                          "must be the last",
		"a.>.b":                        "must be the last",
		">.>":                          "must be the last",
		"a*":                           "* is a wildcard, and must be a token by itself",
		"*a.b":                         "* is a wildcard",
		"**":                           "* is a wildcard",
		"a.b>":                         "> is a wildcard, and must be a token by itself",
		">>":                           "> is a wildcard",
		"*>":                           "* is a wildcard",
		"a b":                          "white space",
		"a\tb":                         "white space",
		"a.\u200b":                     "invisible",
		"a.\xff":                       "invalid UTF-8",
		"a.\u00a0":                     "white space",
		strings.Repeat("\xff", MaxLen): "invalid UTF-8",
	} {
		_, err := Parse(text)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want an Error containing %q", text, err, want)
		} else if len(e.Text) > MaxLen {
			t.Errorf("%q: the error contains %d bytes of the text, want at most %d", text, len(e.Text), MaxLen)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, x := range []struct {
		pattern string
		yes, no []string
	}{
		{"a", []string{"a"}, []string{"", "b", "a.b", "aa"}},
		{"a.b", []string{"a.b"}, []string{"a", "a.c", "a.b.c", "b.a.b"}},
		{"*", []string{"a", "xyz"}, []string{"a.b"}},
		{">", []string{"a", "a.b", "a.b.c.d"}, nil},
		{"a.*", []string{"a.b", "a.c"}, []string{"a", "b.b", "a.b.c"}},
		{"a.>", []string{"a.b", "a.b.c"}, []string{"a", "ab", "b.a.b"}},
		{"*.b", []string{"a.b", "b.b"}, []string{"b", "a.c", "a.b.b"}},
		{"a.*.c", []string{"a.b.c", "a.c.c"}, []string{"a.c", "a.b.b", "a.b.c.c", "a.b.x.c"}},
		{"*.*", []string{"a.b"}, []string{"a", "a.b.c"}},
		{"*.>", []string{"a.b", "a.b.c"}, []string{"a"}},
		{"*.b.>", []string{"a.b.c", "a.b.c.d"}, []string{"a.b", "a.c.c"}},
		{"md.*.AAPL", []string{"md.xnas.AAPL"}, []string{"md.AAPL", "md.xnas.AAPL.trades", "md.xnas.MSFT"}},
	} {
		p := mustParse(t, x.pattern)
		for _, topic := range x.yes {
			if !p.Match(topic) {
				t.Errorf("%s does not match %q", p, topic)
			}
		}
		for _, topic := range x.no {
			if p.Match(topic) {
				t.Errorf("pattern %s matches %q, want no match", p, topic)
			}
		}
	}
}

func TestOverlapsAndCovers(t *testing.T) {
	for _, x := range []struct {
		a, b               string
		overlap            bool
		aCoversB, bCoversA bool
	}{
		{"a", "a", true, true, true},
		{"a", "b", false, false, false},
		{"a", "*", true, false, true},
		{"a", ">", true, false, true},
		{"a.b", "*", false, false, false},
		{"*", ">", true, false, true},
		{"a.*", "*.b", true, false, false},
		{"a.*", "a.>", true, false, true},
		{"a.>", "a", false, false, false},
		{"a.>", "*.*", true, false, false},
		{"a.>", "*.>", true, false, true},
		{"a.>", "b.>", false, false, false},
		{"a.*.c", "a.b.>", true, false, false},
		{"a.*.c", "a.b", false, false, false},
		{"*.*.>", "a.*", false, false, false},
		{">", ">", true, true, true},
		{"*.>", "a.*.*", true, true, false},
		{"*.*.>", "a.>", true, false, false},
	} {
		a, b := mustParse(t, x.a), mustParse(t, x.b)
		if a.Overlaps(b) != x.overlap || b.Overlaps(a) != x.overlap {
			t.Errorf("%s and %s: overlap %v and %v, want %v", a, b, a.Overlaps(b), b.Overlaps(a), x.overlap)
		}
		if a.Covers(b) != x.aCoversB || b.Covers(a) != x.bCoversA {
			t.Errorf("%s and %s: cover %v and %v, want %v and %v", a, b, a.Covers(b), b.Covers(a), x.aCoversB, x.bCoversA)
		}
	}
}

func TestHead(t *testing.T) {
	for _, x := range []struct {
		text string
		n    int
		head string
		ok   bool
	}{
		{"a", 1, "a", true},
		{"a", 2, "a", false},
		{"a.b", 1, "a", true},
		{"a.b", 2, "a.b", true},
		{"a.b.c", 2, "a.b", true},
		{"a.b.c", 4, "a.b.c", false},
		{"md.xnas.AAPL", 2, "md.xnas", true},
	} {
		if head, ok := Head(x.text, x.n); head != x.head || ok != x.ok {
			t.Errorf("the first %d tokens of %s: %q, %v, want %q, %v", x.n, x.text, head, ok, x.head, x.ok)
		}
	}
}
