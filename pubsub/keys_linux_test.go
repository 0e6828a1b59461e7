package pubsub

import (
	"fmt"
	"os"
	"testing"
)

// Sealed groups work over shared memory, with replies, and with a second leg. docs/protocol §27.1.
func TestSealedOverSharedMemory(t *testing.T) {
	const n = 20_000
	for _, legs := range [][]string{nil, {udpURL(t)}} {
		t.Run(fmt.Sprint(len(legs)+1, " legs"), func(t *testing.T) {
			ctx := testContext(t)
			url := withKeys(fmt.Sprintf("shm://sealed-%d-%d?groups=16", os.Getpid(), len(legs)), keyFile(t, newKey(t)))
			open := func() *Bus {
				b, err := Config{Logger: quiet}.Open(ctx, url, legs...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				return b
			}
			pubBus, subBus := open(), open()
			streamAndRequests(t, ctx, pubBus, subBus, n, 1)
			if s := subBus.Stats().Seal; s.Forged+s.Open+s.UnknownKey != 0 || s.Senders == 0 {
				t.Errorf("packets refused without an attacker: %+v, want none", s)
			}
		})
	}
}
