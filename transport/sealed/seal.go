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

// ErrNoKey means that no key is valid now, so that nothing can be sent. It is a transport.ErrNotReady:
// the send may be tried again later.
var ErrNoKey error = noKey{}

type noKey struct{}

func (noKey) Error() string        { return "sealed: no key is valid now: add one to the keyring" }
func (noKey) Is(target error) bool { return target == transport.ErrNotReady }

// unicastIndex is the index of replies, where packets of a group have the group's.
const unicastIndex = math.MaxUint32

// sealer seals the packets of one sender: to one group, or all replies. It has a salt of its own, and with it a
// cipher, and replaces them when another key is to be used, its counter is exhausted, or its clock is set back. It
// belongs to one goroutine at a time.
//
// No nonce is used twice with one cipher: it contains the counter, which only grows. Nor do two senders that continue
// from one copy of memory (a cloned virtual machine) use one for different packets: it also contains random bytes,
// which are drawn when the packets to be sealed are complete. docs/protocol §27.5.
type sealer struct {
	index  uint32
	random io.Reader

	set    *Keyset // by which key was chosen
	steady period  // when it would be chosen again
	key    *key    // nil: there is none
	aead   cipher.AEAD
	next   uint64 // counter of the next packet
	last   int64  // the time of the last, in seconds since 1970: those of a salt never go back
	limit  uint64 // first counter that is not used

	head   [headerLen]byte // of the next packet, but for its counter
	nonce  [nonceLen]byte
	marker marker
}

// maxCounter is the last counter of a salt.
const maxCounter = math.MaxUint32

func newSealer(index uint32, random io.Reader) *sealer {
	return &sealer{index: index, random: random, limit: maxCounter + 1}
}

// begin is called before n or fewer packets are sealed, when all of them are complete.
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

// renew chooses the key, and takes a new salt where that is another one, the counter is used up, or the clock was
// set back.
func (s *sealer) renew(set *Keyset, at int64) error {
	use := set.sending(at)
	same := use != nil && s.key != nil && use.ID == s.key.ID && use.Secret == s.key.Secret
	s.set, s.key, s.steady = set, use, set.steady(at, 0)
	if use == nil || same && s.next+maxTrain <= s.limit && at >= s.last {
		return nil
	}
	s.key = nil // until all is well
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

// maxTrain is how many packets begin can be asked for.
const maxTrain = 1 << 16

// seal writes packet, sealed, to dst, which has Overhead bytes more room.
func (s *sealer) seal(dst, packet []byte) {
	binary.LittleEndian.PutUint32(s.head[atCounter:], uint32(s.next))
	s.next++
	copy(dst, s.head[:])
	header(s.head[:]).nonce(&s.nonce)
	s.aead.Seal(dst[headerLen:headerLen], s.nonce[:], packet, s.head[:])
}
