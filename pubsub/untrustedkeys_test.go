package pubsub

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// An attacker that invents keys fills neither the log nor memory: 64 untrusted keys are reported one by one, then
// once that there are more; all packets are counted. A trusted publisher is received meanwhile. When the trust
// changes the count begins again. docs/protocol §29.8.
func TestUntrustedKeys(t *testing.T) {
	const (
		untrustedGroups = 6
		strangeKeys     = 500
	)
	ctx := testContext(t)
	key, name := signingKey(t), strings.TrimPrefix(memURL(t), "mem://")
	url := fmt.Sprintf("mem://%s?groups=%d", name, untrustedGroups)
	var one, many atomic.Int64
	var log logLines
	trusted := trust(t, trustLine(">", key))
	subBus := openBus(t, Config{Trust: trusted, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnEvent: func(e events.Event) {
		var err *UnreadableError
		if !errors.As(e.Err, &err) {
			return
		}
		switch err.Reason {
		case transport.UnreadableUntrusted:
			one.Add(1)
		case transport.UnreadableManyUntrusted:
			many.Add(1)
			if err.Key != 0 {
				t.Errorf("the event names a key: %v", err)
			}
		}
	}}, url)
	for g := range untrustedGroups {
		subscribe(t, subBus, topicOf(subBus, g))
	}
	sub, pub := subscribe(t, subBus, "x"), publisher(t, openBus(t, Config{Sign: key}, url), "x")
	wait(t, ctx, pub, 1)

	m, err := mem.Open(mem.Config{Name: name, Groups: untrustedGroups})
	if err != nil {
		t.Fatal(err)
	}
	defer endTransport(m)
	attack := func() {
		t.Helper()
		before := subBus.Stats().Sign.Untrusted
		for i := range strangeKeys {
			sendUntrusted(t, m, i%untrustedGroups)
			if i%50 == 49 { // so that no queue overflows; a loop that searches for publishers counts packets of other groups, too
				eventually(t, ctx, "all untrusted packets are counted", func() bool { return subBus.Stats().Sign.Untrusted >= before+uint64(i)+1 })
				publishAll(t, ctx, pub, 1)
				expectAll(t, ctx, sub, 1)
			}
		}
	}
	attack()
	lines := func() int64 { return int64(log.count("packets cannot be opened")) }
	reported := func(n int64) {
		t.Helper()
		eventually(t, ctx, "it is reported", func() bool { return one.Load() >= 64*n && many.Load() >= n })
		if one.Load() != 64*n || many.Load() != n || lines() != 65*n {
			t.Errorf("reported %d keys one by one, %d times that there are more, in %d lines, want %d, %d and %d", one.Load(), many.Load(), lines(), 64*n, n, 65*n)
		}
	}
	reported(1)
	attack()
	reported(1)
	trusted.use(t, trustLine("x", key), trustLine("other", signingKey(t)))
	attack()
	reported(2)
	st := subBus.Stats()
	if st.Sign.Streams > 2*untrustedGroups { // of the trusted publisher, in its group
		t.Errorf("streams with untrusted keys are remembered: %+v", st.Sign)
	}
	for _, g := range st.Groups {
		if g.Streams > 1 {
			t.Errorf("a group follows streams with untrusted keys: %+v", g)
		}
	}
}

// sendUntrusted sends a packet that is signed with a new key.
func sendUntrusted(t *testing.T, m *mem.Transport, group int) {
	t.Helper()
	key := signingKey(t)
	signer, err := signed.NewSigner(key, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := signer.NewSender(m, group)
	if err != nil {
		t.Fatal(err)
	}
	p := wire.AppendHello(nil, wire.Header{GroupTag: wire.GroupTag(m.GroupAddress(group)), Publisher: signed.PublisherID(key, 5), Epoch: 9}, new(wire.Hello))
	if _, err := tx.Send(&transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}); err != nil {
		t.Fatal(err)
	}
}
