package pubsub

import (
	"testing"
	"unsafe"
)

// Go passes up to nine words in registers on amd64, and more on arm64; the error of a handler takes two. A larger
// message would be passed in memory, which costs as much as the delivery itself. Add fields to the type of
// Message.from instead.
func TestMessageFitsRegisters(t *testing.T) {
	const words = 7
	if n := unsafe.Sizeof(Message{}) / unsafe.Sizeof(uintptr(0)); n > words {
		t.Errorf("a message has %d words, more than the %d that are passed in registers together with an error", n, words)
	}
}
