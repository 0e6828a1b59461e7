package driver

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID is the number of the calling goroutine, as the runtime prints it in stack
// traces, since it tells it in no other way: "goroutine 42 [running]:". It takes about a
// microsecond, and is for rare calls. It is zero where the text is another one.
func goroutineID() uint64 {
	var buf [64]byte
	text := buf[:runtime.Stack(buf[:], false)]
	text, ok := bytes.CutPrefix(text, []byte("goroutine "))
	if !ok {
		return 0
	}
	number, _, _ := bytes.Cut(text, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
