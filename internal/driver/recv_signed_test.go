package driver

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Nothing is taken for a bus's own, and not verified, of which receivers would tell. docs/protocol.md §29.6.
func TestOwnIsNotVerified(t *testing.T) {
	l := &Loop{cfg: Config{Publisher: 7, Epoch: 9}}
	own := wire.AppendHello(nil, wire.Header{Publisher: 7, Epoch: 9}, new(wire.Hello))
	changed := func(at int, b byte) []byte {
		p := append([]byte{}, own...)
		p[at] = b
		return p
	}
	for name, c := range map[string]struct {
		p    []byte
		want bool
	}{
		"own":              {own, true},
		"another epoch":    {changed(24, 8), false},
		"another version":  {changed(2, 99), false},
		"sealed, it seems": {changed(1, 's'), false},
		"cut":              {own[:wire.HeaderLen-1], false},
	} {
		if got := l.own(c.p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
