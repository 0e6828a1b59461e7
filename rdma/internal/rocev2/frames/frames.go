// Package frames holds computed and captured RoCEv2 frames, with which tests compare codec and
// provider, and which they damage. Only tests import it.
package frames

import (
	_ "embed"
	"encoding/hex"
	"strings"
	"testing"
)

//go:embed frames.txt
var text string

// Frame is a frame from the Ethernet header on.
type Frame struct {
	Name  string
	Bytes []byte
}

// ethernetBytes is the length of an Ethernet header.
const ethernetBytes = 14

// Packet is the frame without its Ethernet header.
func (f *Frame) Packet() []byte { return f.Bytes[ethernetBytes:] }

// All returns all frames. frames.txt describes them.
func All(t testing.TB) (list []Frame) {
	t.Helper()
	open := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "\t")
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
			open = false
		case indented && open:
			b, err := hex.DecodeString(line)
			if err != nil {
				t.Fatalf("frame %s: %v", list[len(list)-1].Name, err)
			}
			f := &list[len(list)-1]
			f.Bytes = append(f.Bytes, b...)
		default:
			list, open = append(list, Frame{Name: line}), true
		}
	}
	return list
}

// Get returns the frame of a name.
func Get(t testing.TB, name string) Frame {
	t.Helper()
	for _, f := range All(t) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no frame %q", name)
	return Frame{}
}
