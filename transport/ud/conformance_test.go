package ud_test

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/ud"
)

var (
	_ transport.Transport   = (*ud.Transport)(nil)
	_ transport.ReplyReader = (*ud.Sender)(nil)
)

// TestConformance runs the suite over simulated subnets in real time, each endpoint on its own host, with and without
// package faulty. docs/protocol §15.1, §15.2, §15.3.
func TestConformance(t *testing.T) {
	for _, flavor := range []fabric.Flavor{fabric.InfiniBand, fabric.RoCE} {
		for _, wrapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v,faulty=%v", flavor, wrapped), func(t *testing.T) {
				if wrapped {
					testenv.Slow(t)
				}
				transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
					f := fabric.New(fabric.Config{Flavor: flavor, Live: true})
					t.Cleanup(func() { f.Close() }) // after the endpoints have ended
					return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
						queue := 512 // less than the default, because some tests fill the queue
						if o.Queue > 0 {
							queue = o.Queue
						}
						tr, err := ud.Open(ud.Config{Provider: f.AddHost(fabric.HostConfig{}), ReceiveQueue: queue, Peers: o.Peers})
						if err != nil {
							t.Fatal(err)
						}
						if wrapped {
							return faulty.New(tr, faulty.Config{Loss: 1e-300})
						}
						return tr
					}}
				})
			})
		}
	}
}
