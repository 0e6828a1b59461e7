package engine

import (
	"errors"
	"net"
	"testing"
)

// The states of a publication, and the transitions between them.
func TestLifecycle(t *testing.T) {
	notJoined := errors.New("the group cannot be joined")
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
		{"failed", func(x *lifecycle) { x.fail(notJoined) }, true, notJoined, true},
		{"opened again", func(x *lifecycle) { x.fail(notJoined); x.reopen() }, false, nil, false},
		{"failed and closed", func(x *lifecycle) { x.fail(notJoined); x.close(net.ErrClosed) }, true, notJoined, false},
		{"failed and ending", func(x *lifecycle) { x.fail(notJoined); x.end() }, true, notJoined, false},
		{"fails at its end", func(x *lifecycle) { x.end(); x.fail(notJoined) }, true, notJoined, false},
		{"closed, then fails", func(x *lifecycle) { x.close(net.ErrClosed); x.fail(notJoined) }, true, net.ErrClosed, false},
	} {
		var x lifecycle
		if c.steps(&x); x.shut() != c.shut || x.closed != c.why || x.reopens() != c.reopens {
			t.Errorf("%s: shut %v, closed by %v, reopens %v, want %v, %v and %v", c.name, x.shut(), x.closed, x.reopens(), c.shut, c.why, c.reopens)
		}
	}
}
