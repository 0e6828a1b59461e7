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

// Who makes keys fills neither the log nor memory: of 64 that are not trusted it is told one by one, and then once that
// there are more, and all packets are counted. A trusted publisher is heard meanwhile. When
// the trust changes it begins anew. docs/protocol §29.8.
func TestStrangeKeys(t *testing.T) {
	const (
		strangeGroups = 6
		strangeKeys   = 500
	)
	ctx := testContext(t)
	key, name := signingKey(t), strings.TrimPrefix(memURL(t), "mem://")
	url := fmt.Sprintf("mem://%s?groups=%d", name, strangeGroups)
	var one, many atomic.Int64
	log := new(operatorLog)
	trusted := trust(t, trustLine(">", key))
	subBus := openBus(t, Config{Trust: trusted, Logger: slog.New(log), OnEvent: func(e events.Event) {
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
				t.Errorf("it names a key: %v", err)
			}
		}
	}}, url)
	for g := range strangeGroups {
		subscribe(t, subBus, topicOf(subBus, g))
	}
	sub, pub := subscribe(t, subBus, "x"), publisher(t, openBus(t, Config{Sign: key}, url), "x")
	wait(t, ctx, pub, 1)

	m, err := mem.Open(mem.Config{Name: name, Groups: strangeGroups})
	if err != nil {
		t.Fatal(err)
	}
	defer endTransport(m)
	attack := func() {
		t.Helper()
		before := subBus.Stats().Sign.Untrusted
		for i := range strangeKeys {
			sendStrange(t, m, i%strangeGroups)
			if i%50 == 49 { // no queue gets full; a loop that looks for publishers counts those of some groups, too
				eventually(t, ctx, "all strange packets are counted", func() bool { return subBus.Stats().Sign.Untrusted >= before+uint64(i)+1 })
				publishAll(t, ctx, pub, 1)
				expectAll(t, ctx, sub, 1)
			}
		}
	}
	attack()
	lines := func() int64 { return int64(log.with("packets cannot be opened")) }
	told := func(n int64) {
		t.Helper()
		eventually(t, ctx, "it is told", func() bool { return one.Load() >= 64*n && many.Load() >= n })
		if one.Load() != 64*n || many.Load() != n || lines() != 65*n {
			t.Errorf("told of %d keys one by one, %d times that there are more, in %d lines, want %d, %d and %d", one.Load(), many.Load(), lines(), 64*n, n, 65*n)
		}
	}
	told(1)
	attack()
	told(1)
	trusted.use(t, trustLine("x", key), trustLine("other", signingKey(t)))
	attack()
	told(2)
	st := subBus.Stats()
	if st.Sign.Streams > 2*strangeGroups { // of the trusted publisher, in its group
		t.Errorf("streams are remembered of strangers: %+v", st.Sign)
	}
	for _, g := range st.Groups {
		if g.Streams > 1 {
			t.Errorf("a group follows strangers: %+v", g)
		}
	}
}

// sendStrange sends a packet that is signed with a key that nobody has seen.
func sendStrange(t *testing.T, m *mem.Transport, group int) {
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
