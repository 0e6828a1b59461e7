package pubsub

import (
	"testing"
	"unsafe"
)

// Go passes up to nine words in registers on amd64, more of them on arm64; two of those of a
// handler are its error. A message that
// takes more goes through memory at each call of a handler, which costs as much as the
// delivery itself. Put what else is known of a message behind Message.from.
func TestMessageFitsRegisters(t *testing.T) {
	const words = 7
	if n := unsafe.Sizeof(Message{}) / unsafe.Sizeof(uintptr(0)); n > words {
		t.Errorf("a message has %d words, more than the %d that are passed in registers beside an error", n, words)
	}
}
