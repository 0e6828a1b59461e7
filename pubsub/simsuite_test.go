package pubsub

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/simnet"
)

// TestSimSuite runs the tests of delivery once more, over simulated subnets on
// which something is wrong: order, every message once, large messages, many
// publishers and topics, ends. What they expect stays the same.
func TestSimSuite(t *testing.T) {
	tests := []struct {
		name string
		run  func(*testing.T)
	}{
		{"PublishSubscribe", TestPublishSubscribe},
		{"LossyManySizes", TestLossyManySizes},
		{"LargeMessages", TestLargeMessages},
		{"ManyPublishersOneGroup", TestManyPublishersOneGroup},
		{"TopicsOfOneGroup", TestTopicsOfOneGroup},
		{"ExclusivePublishersInOrder", TestExclusivePublishersInOrder},
		{"NextBatch", TestNextBatch},
		{"BackPressure", TestBackPressure},
		{"PublisherEvents", TestPublisherEvents},
		{"CloseOfSubscriberIsNoGap", TestCloseOfSubscriberIsNoGap},
		{"CloseUnderLoad", TestCloseUnderLoad},
		{"CloseUnderExclusivePublishers", TestCloseUnderExclusivePublishers},
		{"NoGoroutineLeft", TestNoGoroutineLeft},
	}
	for _, subnet := range []struct {
		name, options string
		unrest        bool // memberships are lost all the time
	}{
		{"lossy", "loss=0.02&dup=0.01&reorder=0.02", false},
		{"lossy RoCE", "flavor=roce&mtu=1024&loss=0.02&dup=0.01&reorder=0.02", false},
		{"no send-only members", "sendonly=off&loss=0.01", false},
		{"few MLIDs", "groups=4&mlids=4", false},
		{"receive queue of 16", "rq=16", false},
		{"memberships lost", "switches=3", true},
	} {
		t.Run(subnet.name, func(t *testing.T) {
			was := fabrics
			defer func() { fabrics = was }()
			fabrics = []testFabric{{"sim", func(t testing.TB) string {
				if subnet.unrest {
					stir(t, strings.TrimPrefix(simURL(t), "sim://"))
				}
				return simURL(t) + "?seed=" + simSeed(t) + "&" + subnet.options
			}}}
			for _, test := range tests {
				t.Run(test.name, test.run)
			}
		})
	}
}

// stir restarts the subnet manager of a subnet again and again until the test
// ends, at first soon: all memberships are lost and joined again.
func stir(t testing.TB, name string) {
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for pause := 10 * time.Millisecond; ; pause = time.Second {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			if s := simnet.Lookup(name); s != nil {
				s.Fabric.RestartSM()
			}
		}
	}()
}
