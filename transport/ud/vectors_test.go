package ud

import (
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// docs/protocol §17.2, §17.3: docs/vectors/hashes.json.
func TestAddressVectors(t *testing.T) {
	testenv.GroupAddresses(t, "ud", func(base netip.Addr, _, group int) string {
		cfg := Config{Range: netip.PrefixFrom(base, 0), Groups: group + 1}
		tr := &Transport{members: &memberships{addrs: cfg.groupAddrs()}}
		return tr.GroupAddress(group)
	})
}
