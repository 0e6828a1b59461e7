//go:build unix

package udp_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// With too few free file descriptors, Open reports those and not a missing interface, address or route.
func TestFewDescriptors(t *testing.T) {
	lo := sys.LoopbackName()
	for name, cfg := range map[string]udp.Config{
		"name": {Interface: lo}, "address": {Interface: "127.0.0.1"}, "default": {},
		"IPv6": {Interface: lo, Range: netip.MustParsePrefix("ff15::20:0/112")},
	} {
		_, without := udp.Open(cfg) // IPv6 or interfaces other than loopback may be missing
		for free, opened := 0, false; free < 20 && !opened; free++ {
			restore := testenv.FewFiles(t, free)
			tr, err := udp.Open(cfg)
			restore()
			if opened = err == nil; opened {
				end(tr)
				continue
			}
			if !errors.Is(err, syscall.EMFILE) && (without == nil || err.Error() != without.Error()) {
				t.Errorf("%s with %d descriptors: error %v, want %v", name, free, err, syscall.EMFILE)
			}
		}
	}
}
