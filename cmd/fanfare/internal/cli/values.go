package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// value is a flag's value. Unlike those of package flag it says what to write
// instead of a text that cannot be parsed.
type value[T any] struct {
	val    *T
	parse  func(string) (T, error)
	format func(T) string
	must   string // "it must be" this
	name   string // what help calls it where the flag's usage does not
	from   []word // those that it can be; nil: it can be anything

	holds func(T) bool // that it is within its bounds; nil: there are none
	bound string       // "it must be" this, too
}

func (v *value[T]) placeholder() string { return v.name }
func (v *value[T]) words() []word       { return v.from }

func (v *value[T]) String() string {
	if v.val == nil {
		return ""
	}
	return v.format(*v.val)
}

func (v *value[T]) Set(text string) error {
	x, err := v.parse(text)
	if err != nil {
		return errors.New("it must be " + v.must)
	}
	if v.holds != nil && !v.holds(x) {
		return errors.New("it must be " + v.bound)
	}
	*v.val = x
	return nil
}

// within, atLeast and above bound what the user may give; the default may be another value, which stands for none.
func within[T cmp.Ordered](v *value[T], least, most T) {
	v.holds, v.bound = func(x T) bool { return least <= x && x <= most }, fmt.Sprintf("from %v to %v", least, most)
}

func atLeast[T cmp.Ordered](v *value[T], least T) {
	v.holds, v.bound = func(x T) bool { return x >= least }, fmt.Sprintf("%v or more", least)
}

func above[T cmp.Ordered](v *value[T], limit T) {
	v.holds, v.bound = func(x T) bool { return x > limit }, fmt.Sprintf("more than %v", limit)
}

func valueVar[T any](
	fs *flagSet, val *T, name string, def T, usage string, parse func(string) (T, error), must string,
) *value[T] {
	format := func(x T) string { return fmt.Sprint(x) }
	return addValue(fs, name, def, usage, &value[T]{val: val, parse: parse, format: format, must: must})
}

func addValue[T any](fs *flagSet, name string, def T, usage string, v *value[T]) *value[T] {
	*v.val = def
	fs.add(v, name, usage)
	return v
}

func stringVar(fs *flagSet, val *string, name, def, usage string) {
	valueVar(fs, val, name, def, usage, func(text string) (string, error) { return text, nil }, "")
}

// urls is a flag that may be given several times: the first takes the default's place.
type urls struct {
	val *[]string
	set bool
}

func (u *urls) String() string {
	if u.val == nil {
		return ""
	}
	return strings.Join(*u.val, " ")
}

func (u *urls) Set(text string) error {
	if !u.set {
		*u.val, u.set = nil, true
	}
	*u.val = append(*u.val, text)
	return nil
}

func urlsVar(fs *flagSet, val *[]string, name string, def []string, usage string) {
	*val = def
	fs.add(&urls{val: val}, name, usage)
}

func boolVar(fs *flagSet, val *bool, name, usage string) {
	fs.BoolVar(val, name, false, usage)
	fs.added = append(fs.added, fs.Lookup(name))
}

func durationVar(fs *flagSet, val *time.Duration, name string, def time.Duration, usage string) *value[time.Duration] {
	format := func(d time.Duration) string {
		text := d.String() // 1m0s
		if short, ok := strings.CutSuffix(text, "m0s"); ok {
			text = short + "m"
		}
		return text
	}
	return addValue(fs, name, def, usage, &value[time.Duration]{
		val: val, parse: time.ParseDuration, format: format, must: "a time with its unit, such as 500ms or 5s", name: "D",
	})
}

func intVar(fs *flagSet, val *int, name string, def int, usage string) *value[int] {
	return valueVar(fs, val, name, def, usage, strconv.Atoi, "a whole number")
}

func countVar(fs *flagSet, val *uint64, name string, def uint64, usage string) *value[uint64] {
	parse := func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
	return valueVar(fs, val, name, def, usage, parse, "a whole number, not negative")
}

func numberVar(fs *flagSet, val *float64, name string, def float64, usage string) *value[float64] {
	parse := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	return valueVar(fs, val, name, def, usage, parse, "a number")
}

// maxRate keeps arithmetic on rates far from its limits.
const maxRate = 1e12

func rateVar(fs *flagSet, val *float64, name, usage string) {
	v := numberVar(fs, val, name, 0, usage)
	within(v, 0, maxRate)
	v.must = "a number of messages a second, not negative; 0 is no limit"
	v.bound = v.must
}

// word is one of those that a flag or an operand can be. Help and completion say
// what it means. Capitals at its end stand for all that may be in their place, which who
// takes it looks at.
type word struct {
	text  string
	means string // may be empty
}

// takes reports whether text is the word, or it with something for its capitals.
func (w word) takes(text string) bool {
	begins := strings.TrimRightFunc(w.text, unicode.IsUpper)
	return w.text == text || begins != w.text && strings.HasPrefix(text, begins)
}

// plainWords are words that need no explanation.
func plainWords[T ~string](texts ...T) (words []word) {
	for _, t := range texts {
		words = append(words, word{text: string(t)})
	}
	return words
}

// choiceVar is a flag that takes one of several words, the first unless it is given.
func choiceVar[T ~string](fs *flagSet, val *T, name, usage string, from ...word) {
	parse := func(text string) (T, error) {
		if !slices.ContainsFunc(from, func(w word) bool { return w.takes(text) }) {
			return "", strconv.ErrSyntax
		}
		return T(text), nil
	}
	addValue(fs, name, T(from[0].text), usage, &value[T]{
		val: val, parse: parse, format: func(x T) string { return string(x) }, must: "one of " + texts(from, ", "), name: "WORD", from: from,
	})
}

// wordsOf are the words that a flag's value can be; nil: it can be anything.
func wordsOf(f *flag.Flag) []word {
	if c, ok := f.Value.(interface{ words() []word }); ok {
		return c.words()
	}
	return nil
}
