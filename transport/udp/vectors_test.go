package udp

import (
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// docs/protocol §16.1, §16.3: docs/vectors/hashes.json.
func TestAddressVectors(t *testing.T) {
	testenv.GroupAddresses(t, "udp", func(base netip.Addr, port, group int) string {
		tr := new(Transport)
		tr.cfg = Config{Range: netip.PrefixFrom(base, 0), Port: port, Groups: group + 1}
		return tr.GroupAddress(group)
	})
}
