//go:build rdma && linux && cgo

package ud_test

import (
	"os"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/verbs"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// TestVerbs runs the suite on rdma-core, over the devices of this host in turn. They must reach each other; in the lab
// each is a separate network card.
func TestVerbs(t *testing.T) {
	p, err := verbs.Open()
	if err != nil {
		t.Fatal(err)
	}
	devices, err := p.Devices()
	if err != nil || len(devices) == 0 {
		if os.Getenv("FANFARE_MUST_RUN") != "" {
			t.Fatalf("no RDMA device: %v", err)
		}
		t.Skipf("no RDMA device (%v): test/lab/run test -run Verbs", err)
	}
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		next := 0
		return transporttest.Fabric{NoOverflowCount: true, Open: func(t testing.TB, o transporttest.Options) transport.Transport {
			queue := 512
			if o.Queue > 0 {
				queue = o.Queue
			}
			device := devices[next%len(devices)]
			next++
			tr, err := ud.Open(ud.Config{Provider: p, Device: device, ReceiveQueue: queue, Peers: o.Peers})
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}}
	})
}
