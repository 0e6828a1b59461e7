//go:build !linux || fanfare_plainudp

package udp_test

// plainPath says that the portable implementation is under test.
const plainPath = true
