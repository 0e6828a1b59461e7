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

// CleanName returns a name from a packet in a form that is safe to show: unchanged if it is printable UTF-8, otherwise
// quoted, so that it cannot move a terminal's cursor or forge a log line. docs/protocol §13.4.
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

// Quoted returns a clean name in quotes: unchanged if CleanName has quoted it.
func Quoted(name string) string {
	if name != "" && name[0] == '"' {
		return CleanName([]byte(name))
	}
	return strconv.Quote(name)
}
