//go:build linux

package rocenet_test

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/rocenet"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

func TestConformance(t *testing.T) {
	for _, check := range []roce.Check{roce.CheckUDP, roce.CheckBest} {
		t.Run(check.String(), func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
				return transporttest.Fabric{Open: func(_ testing.TB, o transporttest.Options) transport.Transport {
					cfg := rocenet.Config{Interface: "lo", Check: check, ReceiveQueue: 512, Peers: o.Peers}
					if o.Queue > 0 {
						cfg.ReceiveQueue, cfg.ReceiveBuffer = o.Queue, o.Queue*1024
					}
					return open(t, cfg)
				}}
			})
		})
	}
}

func open(t testing.TB, cfg rocenet.Config) *rocenet.Transport {
	t.Helper()
	tr, err := rocenet.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func end(tr *rocenet.Transport) {
	tr.Close()
	for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		tr.Wait(-1)
	}
}
