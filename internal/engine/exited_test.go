package engine

import (
	"runtime"
	"testing"
)

// exits distinguishes a handler that ends its goroutine from a return and from a panic. A panic must crash the process.
func TestExits(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func()
		want bool
	}{
		{"returns", func() {}, false},
		{"exits", runtime.Goexit, true},
		{"exits far below", func() { func() { defer func() {}(); runtime.Goexit() }() }, true},
		{"panics", func() { panic("x") }, false},
		{"panics by a fault", func() { var p *int; *p = 1 }, false},
		{"panics while it exits", func() { defer panic("x"); runtime.Goexit() }, false},
		{"exits while it panics", func() { defer runtime.Goexit(); panic("x") }, true},
		{"exits after a panic", func() {
			defer runtime.Goexit()
			func() { defer func() { recover() }(); panic("x") }()
		}, true},
	} {
		got := make(chan bool, 1)
		go func() {
			defer func() { recover() }()
			defer func() { got <- exits() }()
			c.f()
		}()
		if x := <-got; x != c.want {
			t.Errorf("%s: exits returned %t, want %t", c.name, x, c.want)
		}
	}
}
