package engine

import (
	"errors"
	"net"
	"testing"
)

// What a publication takes in each state, and what leads from one to another.
func TestLifecycle(t *testing.T) {
	gone := errors.New("the group cannot be joined")
	for _, c := range []struct {
		name    string
		steps   func(*lifecycle)
		shut    bool
		why     error
		reopens bool
	}{
		{"open", func(x *lifecycle) {}, false, nil, false},
		{"ending", func(x *lifecycle) { x.end() }, true, nil, false},
		{"ended", func(x *lifecycle) { x.end(); x.close(net.ErrClosed) }, true, net.ErrClosed, false},
		{"failed", func(x *lifecycle) { x.fail(gone) }, true, gone, true},
		{"opened again", func(x *lifecycle) { x.fail(gone); x.reopen() }, false, nil, false},
		{"failed and closed", func(x *lifecycle) { x.fail(gone); x.close(net.ErrClosed) }, true, gone, false},
		{"failed and ending", func(x *lifecycle) { x.fail(gone); x.end() }, true, gone, false},
		{"fails at its end", func(x *lifecycle) { x.end(); x.fail(gone) }, true, gone, false},
		{"closed, then fails", func(x *lifecycle) { x.close(net.ErrClosed); x.fail(gone) }, true, net.ErrClosed, false},
	} {
		var x lifecycle
		if c.steps(&x); x.shut() != c.shut || x.closed != c.why || x.reopens() != c.reopens {
			t.Errorf("%s: shut %v, closed by %v, reopens %v", c.name, x.shut(), x.closed, x.reopens())
		}
	}
}
