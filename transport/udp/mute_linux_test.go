//go:build !fanfare_plainudp

package udp

import "testing"

// Of what sockets that keep something out have dropped, that found no room which the host counts, and which
// others have not dropped.
func TestMixedDrops(t *testing.T) {
	for _, c := range []struct {
		name string
		d    mixedDrops
		host uint64
		want uint64
	}{
		{"kept out", mixedDrops{mixed: 500, host: 10}, 10, 0},
		{"both", mixedDrops{mixed: 500, host: 10}, 17, 7},
		{"all without room", mixedDrops{mixed: 5, host: 10}, 17, 5},
		{"others had none", mixedDrops{mixed: 500, noRoom: 4, host: 10}, 17, 3},
		{"others had none, and the host counts later", mixedDrops{mixed: 500, noRoom: 9, host: 10}, 17, 0},
		{"a count that cannot be read", mixedDrops{mixed: 500, noRoom: 9, host: 10}, 0, 0},
	} {
		if got := c.d.sort(c.host); got != c.want || c.d != (mixedDrops{host: c.host}) {
			t.Errorf("%s: %d, want %d; then %+v", c.name, got, c.want, c.d)
		}
	}
}
