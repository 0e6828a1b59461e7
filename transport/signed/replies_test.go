package signed

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A complete reply is accepted if its key is trusted for the topic of its request. docs/vectors/signed.json has the
// reasons for refusals. docs/protocol §24.7.
func TestReplies(t *testing.T) {
	s, err := NewSigner(testKey(1), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := NewTrust(Grant{"md.>", publicOf(testKey(1))})
	if err != nil {
		t.Fatal(err)
	}
	v, to, data := NewReplyVerifier(Static{trust}, nil), &ReplyTo{events.Instance{Publisher: 1, Epoch: 2}, 3, 4, 5}, []byte("answer")
	out := s.Reply(to, data)
	if len(out) != len(data)+wire.ReplyProofLen || string(out[:len(data)]) != "answer" {
		t.Fatalf("reply of %d bytes %q, want answer and %d bytes of proof", len(out), out, wire.ReplyProofLen)
	}
	for topic, want := range map[string]Verdict{"md.x": Accepted, "other": Untrusted} {
		if id, got := v.Check(topic, to, data, out[len(data):], true); got != want || id != IDOf(publicOf(testKey(1))) {
			t.Errorf("%s: verdict %d, key %v, want %d of key 1", topic, got, id, want)
		}
	}
}

// The number of forged replies that are checked is limited, except the first of each receiver that was sent the
// request. Valid replies do not use up the limit.
func TestForgedRepliesAreBounded(t *testing.T) {
	s, err := NewSigner(testKey(1), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClock()
	v, to, data := NewReplyVerifier(Static{testTrust(t, 1)}, c.Now), &ReplyTo{events.Instance{Publisher: 1, Epoch: 2}, 3, 4, 5}, []byte("answer")
	good := s.Reply(to, data)[len(data):]
	bad := append([]byte(nil), good...)
	bad[10] ^= 1
	count := func() (verified int) {
		for range 200 {
			switch _, got := v.Check("t", to, data, bad, false); got {
			case Forged:
				verified++
			case Deferred:
			default:
				t.Fatalf("verdict %d, want Forged or Deferred", got)
			}
		}
		return verified
	}
	const atOnce = unknownFails / 20
	for range 200 {
		if _, got := v.Check("t", to, data, good, false); got != Accepted {
			t.Fatalf("verdict %d of a valid reply, want Accepted", got)
		}
	}
	if n := count(); n != atOnce {
		t.Errorf("%d are checked, want %d", n, atOnce)
	}
	if _, got := v.Check("t", to, data, good, true); got != Accepted {
		t.Errorf("the first of an expected receiver: verdict %d", got)
	}
	if _, got := v.Check("t", to, data, good, false); got != Deferred {
		t.Errorf("a valid reply of another receiver: verdict %d, want Deferred", got)
	}
	if c.add(time.Second / 100); count() != unknownFails/100 {
		t.Error("no more are checked after some time")
	}
}

func BenchmarkReply(b *testing.B) {
	s, err := NewSigner(testKey(1), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	v, to, data := NewReplyVerifier(Static{testTrust(b, 1)}, nil), &ReplyTo{events.Instance{Publisher: 1, Epoch: 2}, 3, 4, 5}, make([]byte, 64)
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			s.Reply(to, data)
		}
	})
	b.Run("check", func(b *testing.B) {
		proof := s.Reply(to, data)[len(data):]
		for b.Loop() {
			v.Check("t", to, data, proof, true)
		}
	})
}
