package sealed

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// ErrNoKey: no key is valid now, so nothing can be sent. It matches transport.ErrNotReady: the send can be retried
// later.
var ErrNoKey error = noKey{}

type noKey struct{}

func (noKey) Error() string        { return "sealed: no key is valid now: add one to the keyring" }
func (noKey) Is(target error) bool { return target == transport.ErrNotReady }

// unicastIndex is the index of replies; packets to a group have the index of the group.
const unicastIndex = math.MaxUint32

// sealer seals the packets of one sender: to one group, or all replies. It has its own salt and a cipher derived from
// it, and replaces both when the key changes, the counter is exhausted, or the clock is set back. It belongs to one
// goroutine at a time.
//
// No nonce is used twice with one cipher, because it contains the counter, which only grows. Two senders that continue
// from a copy of the same memory (a cloned virtual machine) use different nonces, too: a nonce also contains random
// bytes, drawn when the packets to be sealed are complete. docs/protocol §27.5.
type sealer struct {
	index  uint32
	random io.Reader

	set    *Keyset // from which key was chosen
	steady period  // in which the choice of key remains valid
	key    *key    // nil: no key is valid
	aead   cipher.AEAD
	next   uint64 // counter of the next packet
	last   int64  // time of the last packet, in seconds since 1970: it never decreases for a salt
	limit  uint64 // first counter that is not used

	head   [headerLen]byte // of the next packet, without the counter
	nonce  [nonceLen]byte
	marker marker
}

// maxCounter is the last counter of a salt.
const maxCounter = math.MaxUint32

func newSealer(index uint32, random io.Reader) *sealer {
	return &sealer{index: index, random: random, limit: maxCounter + 1}
}

// begin must be called before sealing up to n packets, when all of them are complete.
func (s *sealer) begin(set *Keyset, now time.Time, n int) error {
	at := now.Unix()
	if set != s.set || !s.steady.has(at) || s.next+uint64(n) > s.limit || at < s.last {
		if err := s.renew(set, at); err != nil {
			return err
		}
	}
	if s.key == nil {
		return ErrNoKey
	}
	s.last = at
	binary.LittleEndian.PutUint32(s.head[atTime:], uint32(at))
	if _, err := io.ReadFull(s.random, s.head[atTrain:]); err != nil {
		return fmt.Errorf("sealed: random bytes: %w", err)
	}
	return nil
}

// renew chooses the key, and makes a new salt if the key has changed, the counter is exhausted, or the clock was set
// back.
func (s *sealer) renew(set *Keyset, at int64) error {
	use := set.sending(at)
	same := use != nil && s.key != nil && use.ID == s.key.ID && use.Secret == s.key.Secret
	s.set, s.key, s.steady = set, use, set.steady(at, 0)
	if use == nil || same && s.next+maxTrain <= s.limit && at >= s.last {
		return nil
	}
	s.key = nil // until there is no error
	if _, err := io.ReadFull(s.random, s.head[atSender:atMark]); err != nil {
		return fmt.Errorf("sealed: random bytes: %w", err)
	}
	salt := s.head[atSender:atMark]
	aead, err := use.derive(salt, s.index)
	if err != nil {
		return err
	}
	s.aead, s.next, s.key = aead, 0, use
	s.head[0], s.head[1], s.head[2] = magic0, magic1, version
	binary.LittleEndian.PutUint32(s.head[atKey:], uint32(use.ID))
	mark := s.marker.mark(use, salt, s.index)
	copy(s.head[atMark:], mark[:])
	return nil
}

// maxTrain is the maximum number of packets for begin.
const maxTrain = 1 << 16

// seal writes the sealed packet to dst, which is Overhead bytes longer.
func (s *sealer) seal(dst, packet []byte) {
	binary.LittleEndian.PutUint32(s.head[atCounter:], uint32(s.next))
	s.next++
	copy(dst, s.head[:])
	header(s.head[:]).nonce(&s.nonce)
	s.aead.Seal(dst[headerLen:headerLen], s.nonce[:], packet, s.head[:])
}
