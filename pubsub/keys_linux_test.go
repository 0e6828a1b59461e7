package pubsub

import (
	"fmt"
	"os"
	"testing"
)

// Over shared memory, whose packets others read, too, sealed groups work as over every fabric, with replies. With a leg beside it as well.
// docs/protocol.md §27.1.
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
			responder, err := subBus.Handle("q", func(m Message, err error) {
				if err == nil && m.IsRequest() {
					m.Respond(m.Data)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer responder.Close()
			sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
			wait(t, ctx, pub, 1)
			wait(t, ctx, publisher(t, pubBus, "q"), 1)
			go publishAll(t, ctx, pub, n)
			expectAll(t, ctx, sub, n)
			if r, err := pubBus.Request(ctx, "q", []byte("ask")); err != nil || string(r.Data) != "ask" {
				t.Errorf("%q, %v", r.Data, err)
			}
			if s := subBus.Stats().Seal; s.Forged+s.Open+s.UnknownKey != 0 || s.Senders == 0 {
				t.Errorf("refused without an attacker: %+v", s)
			}
		})
	}
}
