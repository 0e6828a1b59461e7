//go:build race

package sys

// Poison overwrites released memory, under the race detector, so that a reader that kept it sees garbage instead of an
// old packet.
func Poison(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}
