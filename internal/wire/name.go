package wire

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of a bus on the wire, in bytes.
const MaxName = 64

// MaxTag is the longest tag of a subscriber, in bytes.
const MaxTag = 32

// CleanName is a name from the wire as it may be shown to people: as it is where it is valid UTF-8 that prints,
// otherwise quoted, so that it cannot move a terminal's cursor or forge a line of a log. docs/protocol §13.4.
func CleanName(name []byte) string {
	s := string(name)
	if !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	for _, r := range s {
		if r == ' ' || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// Quoted is a clean name in quotes: as it is if CleanName has quoted it.
func Quoted(name string) string {
	if name != "" && name[0] == '"' {
		return CleanName([]byte(name))
	}
	return strconv.Quote(name)
}
