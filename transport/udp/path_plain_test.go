//go:build !linux || fanfare_plainudp

package udp_test

// plainPath reports whether the portable implementation is tested.
const plainPath = true
