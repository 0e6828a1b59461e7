package pubsub

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
)

const rotations = 20

// rotate publishes a thousand messages a second, with 1 % loss, and calls next twenty times, every ten seconds. It
// checks that all messages arrive in order without a gap, and that each key was used.
func rotate(t *testing.T, ctx context.Context, pubBus, subBus *Bus, next func()) {
	t.Helper()
	sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	each, burst := fewer(100), 100 // bursts for each key, messages in each burst
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range (rotations + 1) * each * burst {
			if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
				t.Error(err)
				return
			}
			if i%burst == burst-1 {
				time.Sleep(10 * time.Second / time.Duration(each))
			}
		}
		if err := pub.Flush(ctx); err != nil {
			t.Error(err)
		}
	}()
	go func() {
		for range rotations {
			time.Sleep(10 * time.Second)
			next()
		}
	}()
	expectAll(t, ctx, sub, (rotations+1)*each*burst)
	<-done
	st := subBus.Stats()
	if st.Seal.Senders <= rotations || st.Seal.Forged+st.Seal.Stale+st.Seal.UnknownKey > 0 {
		t.Errorf("%d senders were known, with %d keys; refused %+v, want more than %d and none", st.Seal.Senders, rotations+1, st.Seal, rotations)
	}
	repaired := uint64(0)
	for _, g := range st.Groups {
		repaired += g.Repaired
	}
	if repaired == 0 {
		t.Error("nothing was lost and repaired")
	}
}

// Keys change by their times: all are in the keyring, and each ends soon after the next one begins. docs/protocol
// §27.7.
func TestRotationByClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []Key
		now := time.Now()
		for i := range rotations + 1 {
			k := newKey(t, keys...)
			if i > 0 {
				k.NotBefore = now.Add(time.Duration(i) * 10 * time.Second)
			}
			k.NotAfter = now.Add(time.Duration(i)*10*time.Second + 15*time.Second)
			keys = append(keys, k)
		}
		keys[rotations].NotAfter = time.Time{}
		url := withKeys(memURL(t), keyFile(t, keys...))
		lossy := Config{Faults: "loss=0.01,seed=7", Wait: WaitPark}
		rotate(t, t.Context(), openBus(t, lossy, url), openBus(t, lossy, url), func() {})
	})
}

// Keys change by files, as with fanfare key rotate and a copy: a new key is written to both files, begins, and ends
// the one before. If the subscriber's file lacks the key, the bus reports its id, and accepts no more packets.
// docs/protocol §27.7, §27.8.
func TestRotationByFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		keys := []Key{newKey(t)}
		pubFile, subFile := keyFile(t, keys...), keyFile(t, keys...)
		lacking := make(chan KeyID, 10)
		reported := Config{Faults: "loss=0.01,seed=7", Wait: WaitPark, OnEvent: func(e events.Event) {
			var err *UnreadableError
			if errors.As(e.Err, &err) && err.Reason == transport.UnreadableKey {
				lacking <- KeyID(err.Key)
			}
		}}
		pubBus := openBus(t, Config{Faults: "loss=0.01,seed=8", Wait: WaitPark}, withKeys(memURL(t), pubFile))
		subBus := openBus(t, reported, withKeys(memURL(t), subFile))
		change := func(files ...string) (fresh Key) {
			now := time.Now()
			var err error
			if keys, fresh, err = keyring.Rotate(keys, now, now.Add(3*time.Second), time.Time{}, 5*time.Second); err != nil {
				t.Error(err)
			}
			for _, f := range files {
				if err := keyring.Replace(f, keys); err != nil {
					t.Error(err)
				}
			}
			return fresh
		}
		rotate(t, ctx, pubBus, subBus, func() { change(pubFile, subFile) })
		sub, pub := subscribe(t, subBus, "y"), publisher(t, pubBus, "y")
		wait(t, ctx, pub, 1)
		fresh := change(pubFile)
		time.Sleep(4 * time.Second)
		taken := subBus.Stats().Transport.PacketsReceived
		for range 100 {
			publish(t, ctx, pub, "not for it")
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := subBus.Stats().Transport.PacketsReceived; n != taken {
			t.Errorf("%d packets were accepted with a missing key, want none", n-taken)
		}
		nothing(t, sub)
		if n := len(lacking); n != 1 {
			t.Errorf("%d events that a key is missing, want 1", n)
		} else if id := <-lacking; id != fresh.ID {
			t.Errorf("reported missing key %v, want %v", id, fresh.ID)
		}
	})
}
