package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
)

// newKey returns a random key, with an id that none of others has.
func newKey(t testing.TB, others ...Key) Key {
	t.Helper()
	k, err := keyring.NewKey(others, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keyFile writes a keyring and returns its path.
func keyFile(t testing.TB, keys ...Key) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Create(file, keys); err != nil {
		t.Fatal(err)
	}
	return file
}

// withKeys adds the option keys= to a URL.
func withKeys(url, file string) string {
	if strings.Contains(url, "?") {
		return url + "&keys=" + file
	}
	return url + "?keys=" + file
}

// ring is a KeyProvider that a test changes.
type ring struct{ set atomic.Pointer[KeySet] }

func (r *ring) Keys() *KeySet { return r.set.Load() }

func (r *ring) use(t testing.TB, keys ...Key) {
	t.Helper()
	set, err := NewKeySet(keys...)
	if err != nil {
		t.Fatal(err)
	}
	r.set.Store(set)
}

// publishAll publishes n numbered messages.
func publishAll(t *testing.T, ctx context.Context, pub *Publisher, n int) {
	t.Helper()
	for i := range n {
		if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
			t.Error(err)
			return
		}
	}
	if err := pub.Flush(ctx); err != nil {
		t.Error(err)
	}
}

// expectAll reads n numbered messages, and no gap.
func expectAll(t *testing.T, ctx context.Context, sub *Subscription, n int) {
	t.Helper()
	for i := range n {
		m, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if want := fmt.Sprintf("message %d", i); string(m.Data) != want {
			t.Fatalf("got %q, want %q", m.Data, want)
		}
	}
}

// nothing fails the test if a subscription delivers something.
func nothing(t *testing.T, sub *Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if m, err := sub.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("delivered %q, error %v, want no message and %v", m.Data, err, context.DeadlineExceeded)
	}
}

// In sealed groups everything arrives, complete and in order, although packets are lost, repeated and reordered: with
// a file of keys, over every fabric. docs/protocol §27.1, §27.3.
func TestSealed(t *testing.T) {
	const n = 20_000
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		url = withKeys(url, keyFile(t, newKey(t)))
		lossy := Config{Faults: "loss=0.02,dup=0.02,reorder=0.02,seed=7"}
		pubBus, subBus := openBus(t, lossy, url), openBus(t, lossy, url)
		sub := subscribe(t, subBus, "secret.topic")
		pub := publisher(t, pubBus, "secret.topic")
		wait(t, ctx, pub, 1)
		go publishAll(t, ctx, pub, n)
		expectAll(t, ctx, sub, n)
		for _, b := range []*Bus{pubBus, subBus} {
			if s := b.Stats().Seal; s.Forged != 0 || s.Open != 0 || s.UnknownKey != 0 || s.Senders == 0 {
				t.Errorf("packets refused without an attacker: %+v, want none", s)
			}
		}
	})
}

// A bus without keys, with another key, or with an unsealed publisher receives nothing, and reports the reason and
// the remedy once. docs/protocol §27.8.
func TestUnreadable(t *testing.T) {
	ours := newKey(t)
	other := newKey(t, ours)
	forged := ours
	forged.Secret[0] ^= 1
	for _, c := range []struct {
		name     string
		pub, sub []Key
		says     string
		counted  func(stats.Seal) uint64
	}{
		{"a missing key", []Key{other}, []Key{ours}, "sealed with key " + other.ID.String() + ", which is not in the keyring", func(s stats.Seal) uint64 { return s.UnknownKey }},
		{"another secret of the same id", []Key{forged}, []Key{ours}, "name key " + ours.ID.String() + " and do not verify", func(s stats.Seal) uint64 { return s.Forged }},
		{"an open publisher", nil, []Key{ours}, "are not sealed, and are refused", func(s stats.Seal) uint64 { return s.Open }},
		{"an open subscriber", []Key{ours}, nil, "are sealed with key " + ours.ID.String() + ", and this bus has no keys", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			url := udpURL(t)
			at := func(keys []Key) string {
				if keys == nil {
					return url
				}
				return withKeys(url, keyFile(t, keys...))
			}
			reported := make(chan events.Event, 100)
			subBus := openBus(t, Config{OnEvent: func(e events.Event) {
				if e.Kind == events.PacketsUnreadable {
					reported <- e
				}
			}}, at(c.sub))
			sub := subscribe(t, subBus, "x")
			pubBus := openBus(t, Config{}, at(c.pub))
			pub := publisher(t, pubBus, "x")
			var e events.Event
			for done := false; !done; {
				publish(t, ctx, pub, "not readable")
				select {
				case e = <-reported:
					done = true
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
					t.Fatal("no event")
				}
			}
			var why *UnreadableError
			if !errors.As(e.Err, &why) || !strings.Contains(e.String(), c.says) || why.From == "" {
				t.Errorf("event %v, want an UnreadableError with the sender and %q", e, c.says)
			}
			nothing(t, sub)
			if st := subBus.Stats(); c.counted != nil && c.counted(st.Seal) == 0 {
				t.Errorf("statistics %+v, want the refused packets counted", st.Seal)
			}
			for range 50 {
				publish(t, ctx, pub, "nor this")
			}
			if len(reported) > 0 {
				t.Errorf("a second event %v, want one only", <-reported)
			}
		})
	}
}

// Keys change twenty times while messages are published with loss: no message is missing, and each key is used.
// docs/protocol §27.7.
func TestRotationWithoutGap(t *testing.T) {
	const rotations, each = 20, 2000
	ctx := testContext(t)
	var pubKeys, subKeys ring
	key := newKey(t)
	pubKeys.use(t, key)
	subKeys.use(t, key)
	url := udpURL(t)
	lossy := "loss=0.01,seed=7"
	pubBus := openBus(t, Config{Keys: &pubKeys, Faults: lossy}, url)
	subBus := openBus(t, Config{Keys: &subKeys, Faults: lossy}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	var reached atomic.Int64 // messages that were read
	go func() {
		for i := range rotations * each {
			if i%each == each/2 {
				for reached.Load() < int64(i-each) { // so that there are losses, repairs and a backlog at each change
					time.Sleep(time.Millisecond)
				}
				next := newKey(t, key)
				next.NotBefore = key.NotBefore.Add(time.Second)
				subKeys.use(t, key, next) // receivers accept both,
				pubKeys.use(t, key, next) // and senders use the new one
				key = next
			}
			if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range rotations * each {
		m, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if want := fmt.Sprintf("message %d", i); string(m.Data) != want {
			t.Fatalf("got %q, want %q", m.Data, want)
		}
		reached.Store(int64(i))
	}
	for _, b := range []*Bus{pubBus, subBus} {
		if s := b.Stats().Seal; s.Forged != 0 {
			t.Errorf("packets refused %+v, want none forged", s)
		}
	}
	if n := subBus.Stats().Groups[0].Repaired; n == 0 {
		t.Error("nothing was lost and repaired")
	}
	if n := subBus.Stats().Seal.Senders; n <= rotations { // one for each key
		t.Errorf("packets of %d keys arrived, want %d", n, rotations+1)
	}
}

// A key that a bus has removed is refused there from the next packet on. docs/protocol §27.7.
func TestRevocation(t *testing.T) {
	first := newKey(t)
	second := newKey(t, first)
	t.Run("by a provider", func(t *testing.T) {
		var subKeys ring
		subKeys.use(t, first)
		url := memURL(t)
		testRevocation(t, first, Config{Keys: &subKeys}, url, url, func() { subKeys.use(t, second) })
	})
	t.Run("by a line of a file", func(t *testing.T) {
		first := first
		first.NotBefore = time.Now().Add(-time.Hour).Truncate(time.Second) // so that the subscriber seals with it
		file := keyFile(t, first, second)
		url := memURL(t)
		testRevocation(t, first, Config{}, url, withKeys(url, file), func() {
			if err := keyring.Replace(file, []Key{second}); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// testRevocation checks that a subscriber refuses all packets sealed with a key once it has revoked the key.
func testRevocation(t *testing.T, key Key, subscriber Config, pubURL, subURL string, revoke func()) {
	ctx := testContext(t)
	var pubKeys ring
	pubKeys.use(t, key)
	pubBus, subBus := openBus(t, Config{Keys: &pubKeys, Linger: 10 * time.Millisecond}, pubURL), openBus(t, subscriber, subURL)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	publishAll(t, ctx, pub, 10)
	expectAll(t, ctx, sub, 10)
	revoke()
	refuse := func(n uint64) {
		t.Helper()
		for until := subBus.Stats().Seal.UnknownKey + n; subBus.Stats().Seal.UnknownKey < until; time.Sleep(time.Millisecond) {
			publish(t, ctx, pub, "refused")
			pub.Flush(ctx)
		}
	}
	refuse(1) // packets being opened during the change, or arrived before the file was read, are still accepted
	packets := subBus.Stats().Transport.PacketsReceived
	refuse(10)
	if n := subBus.Stats().Transport.PacketsReceived; n != packets {
		t.Errorf("%d packets were accepted after the key was revoked, want none", n-packets)
	}
	for {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		m, err := sub.Next(short)
		cancel()
		if err != nil {
			break
		}
		if string(m.Data) != "refused" { // only this message arrived before
			t.Fatalf("message %q, want refused", m.Data)
		}
	}
}

// spy records all bytes that a transport sends.
type spy struct {
	transport.Transport
	mu   *sync.Mutex
	sent *bytes.Buffer // under mu
}

func (s spy) NewSender(group int) (transport.Sender, error) {
	tx, err := s.Transport.NewSender(group)
	return spySender{tx, s}, err
}

func (s spy) Reply(p transport.Peer, packet []byte) error {
	s.mu.Lock()
	s.sent.Write(packet)
	s.mu.Unlock()
	return s.Transport.Reply(p, packet)
}

type spySender struct {
	transport.Sender
	spy spy
}

func (s spySender) Send(out *transport.Outbound) (int, error) {
	s.spy.mu.Lock()
	s.spy.sent.Write(out.Data)
	s.spy.mu.Unlock()
	return s.Sender.Send(out)
}

// Packets of sealed buses contain no topic, name, payload or magic number of an unsealed packet; without keys they
// do. docs/protocol §27.1.
func TestCaptureOfSealedGroup(t *testing.T) {
	for _, seal := range []bool{true, false} {
		t.Run(fmt.Sprint("sealed ", seal), func(t *testing.T) {
			ctx := testContext(t)
			n := mem.NewNetwork()
			var mu sync.Mutex
			var sent bytes.Buffer
			var keys KeyProvider
			if seal {
				set, err := NewKeySet(newKey(t))
				if err != nil {
					t.Fatal(err)
				}
				keys = StaticKeys(set)
			}
			open := func(name string) *Bus {
				m, err := mem.Open(mem.Config{Network: n})
				if err != nil {
					t.Fatal(err)
				}
				b, err := Config{Name: name, Tag: "sometag", Keys: keys, Logger: quiet}.OpenTransport(spy{m, &mu, &sent})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			pubBus, subBus := open("somepublisher"), open("somesubscriber")
			responder, err := subBus.Handle("some.topic", func(m Message, err error) {
				if err == nil && m.IsRequest() {
					m.Respond([]byte("somereply"))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer responder.Close()
			sub := subscribe(t, subBus, "some.>")
			pub := publisher(t, pubBus, "some.topic")
			wait(t, ctx, pub, 1)
			for range 1000 {
				publish(t, ctx, pub, "somepayload")
			}
			large := make([]byte, 20_000) // in several packets
			for i := range large {
				large[i] = byte(i*i>>8 ^ i)
			}
			if err := pub.Publish(ctx, large); err != nil {
				t.Fatal(err)
			}
			if _, err := pubBus.Request(ctx, "some.topic", []byte("somerequest")); err != nil {
				t.Fatal(err)
			}
			for range 1002 {
				if _, err := sub.Next(ctx); err != nil {
					t.Fatal(err)
				}
			}
			subBus.Close()
			pubBus.Close()
			mu.Lock()
			defer mu.Unlock()
			for _, text := range []string{"some.topic", "somepublisher", "somesubscriber", "somepayload", "somereply", "somerequest", "sometag", "Ff\x01\x01", "Ff\x01\x07"} {
				if found := bytes.Contains(sent.Bytes(), []byte(text)); found == seal {
					t.Errorf("text %q found in %d bytes sent: %v, want %v", text, sent.Len(), found, !seal)
				}
			}
			for at := 0; at+32 <= len(large); at += 1000 { // parts of it, as a packet may end in the middle
				one, other := bytes.Contains(sent.Bytes(), large[at:at+16]), bytes.Contains(sent.Bytes(), large[at+16:at+32])
				if found := one || other; found == seal {
					t.Errorf("bytes %x found in %d bytes sent: %v, want %v", large[at:at+32], sent.Len(), found, !seal)
				}
			}
		})
	}
}

// A keyring that other users may read is refused, and so is one given twice.
func TestKeysRefused(t *testing.T) {
	good := keyFile(t, newKey(t))
	open := filepath.Join(t.TempDir(), "open")
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, text, 0o644); err != nil {
		t.Fatal(err)
	}
	var r ring
	r.use(t, newKey(t))
	for name, c := range map[string]struct {
		cfg  Config
		url  []string
		says string
	}{
		"others may read": {Config{}, []string{"mem://x?keys=" + open}, "chmod 600"},
		"no file":         {Config{}, []string{"mem://x?keys=" + open + "x"}, "no such file"},
		"no name":         {Config{}, []string{"mem://x?keys="}, "names no file"},
		"twice":           {Config{Keys: &r}, []string{"mem://x?keys=" + good}, "leave one out"},
		"legs":            {Config{}, []string{"mem://x?keys=" + good, "mem://y?keys=" + open}, "all legs carry the same packets"},
		"small packets":   {Config{Keys: &r}, []string{"mem://x?size=520"}, "too small"},
	} {
		c.cfg.Logger = quiet
		b, err := c.cfg.Open(t.Context(), c.url[0], c.url[1:]...)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one containing %q", name, err, c.says)
		}
	}
}

// The error for too small packets states the minimum of size= in the URL, including the overhead of sealing and
// signing.
func TestSealedPacketsTooSmall(t *testing.T) {
	ring, signing := keyFile(t, newKey(t)), signingKey(t)
	for _, c := range []struct {
		config      Config
		sealed      bool
		size, least int
	}{
		{Config{}, false, 500, 512}, {Config{}, true, 520, 568}, {Config{Sign: signing}, true, 700, 768},
	} {
		url := func(size int) string {
			u := fmt.Sprintf("%s?size=%d", memURL(t), size)
			if c.sealed {
				u = withKeys(u, ring)
			}
			return u
		}
		_, err := c.config.Open(testContext(t), url(c.size))
		if said := fmt.Sprint(err); !strings.Contains(said, fmt.Sprintf("packets of %d bytes are too small", c.size)) || !strings.Contains(said, fmt.Sprintf("use %d at least", c.least)) {
			t.Errorf("size=%d: %v, want a minimum of %d", c.size, err, c.least)
		}
		bus, err := c.config.Open(testContext(t), url(c.least))
		if err != nil {
			t.Fatalf("opening with size=%d: %v", c.least, err)
		}
		bus.Close()
	}
}
