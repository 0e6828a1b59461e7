package signed

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Replies to requests are sent by unicast in separate packets, so there is no train to sign: a proof follows the bytes
// of each reply. It contains the ids of the request and the replier, so it cannot be used for another request.
// docs/protocol §24.7.

// ReplyTo identifies the request that a reply answers, and the replier.
type ReplyTo struct {
	events.Instance // of the request
	Topic, Number   uint64
	Receiver        uint64 // the replier
}

const (
	replyText = "fanfare reply 1"
	keyIDLen  = 4
)

// replyStatement is the signed data: the text, the ids of request and replier, and the SHA-256 of the bytes.
type replyStatement [len(replyText) + 5*8 + sha256.Size]byte

func (s *replyStatement) set(to *ReplyTo, data []byte) {
	b := s[copy(s[:], replyText):]
	for i, x := range []uint64{uint64(to.Publisher), uint64(to.Epoch), to.Topic, to.Number, to.Receiver} {
		binary.LittleEndian.PutUint64(b[8*i:], x)
	}
	h := sha256.Sum256(data)
	copy(b[5*8:], h[:])
}

// Reply returns data followed by the proof. Any goroutine may call it.
func (s *Signer) Reply(to *ReplyTo, data []byte) []byte {
	var text replyStatement
	text.set(to, data)
	out := make([]byte, 0, len(data)+wire.ReplyProofLen)
	out = binary.LittleEndian.AppendUint32(append(out, data...), uint32(IDOf(publicOf(s.key))))
	return append(out, ed25519.Sign(s.key, text[:])...)
}

// ReplyVerifier accepts replies of publishers that a Provider trusts for their topics. Any goroutine may use it.
type ReplyVerifier struct {
	trust Provider
	now   func() time.Time

	mu     sync.Mutex
	failed budget // under mu
}

// NewReplyVerifier returns a ReplyVerifier. now is the time of day; nil is time.Now.
func NewReplyVerifier(trust Provider, now func() time.Time) *ReplyVerifier {
	if now == nil {
		now = time.Now
	}
	return &ReplyVerifier{trust: trust, now: now}
}

// Check checks a complete reply to a request on a topic and its proof, which is empty if there is none. first: it is
// the first reply of a receiver that was asked, and is checked however many forged replies arrive.
func (v *ReplyVerifier) Check(topic string, to *ReplyTo, data, proof []byte, first bool) (KeyID, Verdict) {
	if len(proof) == 0 {
		return 0, Unsigned
	}
	if len(proof) != wire.ReplyProofLen {
		return 0, Malformed
	}
	id := KeyID(binary.LittleEndian.Uint32(proof))
	key := v.trust.Trust().find(id)
	switch {
	case key == nil || !key.may(topic):
		return id, Untrusted
	case !first && !v.affords():
		return id, Deferred
	}
	var text replyStatement
	text.set(to, data)
	if !ed25519.Verify(key.key, text[:], proof[keyIDLen:]) {
		v.fail()
		return id, Forged
	}
	return id, Accepted
}

// affords reports whether a reply may be checked that probably does not verify.
func (v *ReplyVerifier) affords() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed.fill(v.now(), unknownFails, atOnce)
	return v.failed.some()
}

func (v *ReplyVerifier) fail() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed.take()
}
