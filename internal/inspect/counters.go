package inspect

import (
	"math"
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// CountersOf returns the nonzero counters of the struct that v points to: its fields of type uint64, and those of
// embedded structs.
func CountersOf(v any) Counters {
	c := make(Counters)
	c.Add("", v)
	return c
}

// Add adds the counters of another struct, with a prefix before their names.
func (c Counters) Add(prefix string, v any) {
	x := reflect.ValueOf(v).Elem()
	for _, f := range fieldsOf(x.Type()) {
		if n := x.FieldByIndex(f.index).Uint(); n != 0 {
			c[prefix+f.name] = n
		}
	}
}

// Plus returns the sum of two counters, at most the largest number: they may be of several processes, and a wrong
// figure of one must not cause an overflow.
func Plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// counterField is a field that is a counter.
type counterField struct {
	index []int
	name  string
}

var knownFields sync.Map // reflect.Type to []counterField

func fieldsOf(t reflect.Type) []counterField {
	if known, ok := knownFields.Load(t); ok {
		return known.([]counterField)
	}
	var list []counterField
	for _, f := range reflect.VisibleFields(t) {
		if f.Type.Kind() == reflect.Uint64 && f.IsExported() {
			list = append(list, counterField{f.Index, snake(f.Name)})
		}
	}
	knownFields.Store(t, list)
	return list
}

// snake returns a Go name in snake case: NAKPackets is nak_packets, NAKs is naks, RTT is rtt.
func snake(name string) string {
	var b strings.Builder
	r := []rune(name)
	upper := func(i int) bool { return i < len(r) && unicode.IsUpper(r[i]) }
	for i := range r {
		if i > 0 && upper(i) {
			plural := i+1 < len(r) && r[i+1] == 's' && !(i+2 < len(r) && unicode.IsLower(r[i+2]))
			if !upper(i-1) || i+1 < len(r) && !upper(i+1) && !plural {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r[i]))
	}
	return b.String()
}
