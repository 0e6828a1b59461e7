package sealed

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// KeyID identifies a key. Each packet contains it unencrypted.
type KeyID uint32

// String is the id as in keyrings and messages: 0x and eight hexadecimal digits.
func (id KeyID) String() string { return fmt.Sprintf("0x%08x", uint32(id)) }

// Key is a key of a group of buses: every holder can read and send.
type Key struct {
	ID     KeyID // not 0
	Secret [32]byte
	// Senders use the key from NotBefore on; receivers refuse it from NotAfter on. The zero time is no bound. Of the valid
	// keys, senders use the one with the latest NotBefore. A key that ends before it begins is never valid: this revokes a
	// key before its NotBefore.
	NotBefore, NotAfter time.Time
}

// String is the key without its secret.
func (k Key) String() string { return k.ID.String() }

// GoString keeps the secret out of the output of %#v.
func (k Key) GoString() string { return "sealed.Key(" + k.ID.String() + ")" }

// Keyset is an immutable set of keys.
type Keyset struct {
	all  []*key // the latest NotBefore first
	byID map[KeyID]*key
}

// key is a Key and the values derived from it for all senders.
type key struct {
	Key
	from, until int64        // seconds since 1970, as NotBefore and NotAfter
	marks       cipher.Block // AES with the key for marks
}

// MaxKeys bounds the keys of a Keyset.
const MaxKeys = 64

// NewKeyset returns a set of keys. It returns an error for more than MaxKeys, an id of 0, duplicate ids or secrets, or
// a zero secret.
func NewKeyset(keys []Key) (*Keyset, error) {
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d keys: the maximum is %d: remove expired ones", len(keys), MaxKeys)
	}
	s := &Keyset{byID: make(map[KeyID]*key)}
	for _, k := range keys {
		switch {
		case k.ID == 0:
			return nil, errors.New("a key has the id 0, which is not valid")
		case s.byID[k.ID] != nil:
			return nil, fmt.Errorf("two keys have the id %v", k.ID)
		case k.Secret == [32]byte{}:
			return nil, fmt.Errorf("key %v has a secret of zeros", k.ID)
		}
		for _, o := range s.all {
			if o.Secret == k.Secret {
				return nil, fmt.Errorf("keys %v and %v have the same secret: a holder of one has both, even if the other is revoked; remove one", o.ID, k.ID)
			}
		}
		secret, err := hkdf.Key(sha256.New, k.Secret[:], nil, "fanfare sealed 1 mark", 32)
		if err != nil {
			return nil, err
		}
		x := &key{Key: k, from: math.MinInt64, until: math.MaxInt64}
		if x.marks, err = aes.NewCipher(secret); err != nil {
			return nil, err
		}
		if !k.NotBefore.IsZero() {
			x.from = k.NotBefore.Unix()
		}
		if !k.NotAfter.IsZero() {
			x.until = k.NotAfter.Unix()
		}
		if x.until <= x.from {
			x.until = math.MinInt64 // never valid, also for receivers that accept it before it begins
		}
		s.byID[k.ID] = x
		s.all = append(s.all, x)
	}
	slices.SortFunc(s.all, func(a, b *key) int { // of two that begin at the same time the larger id first
		return cmp.Or(cmp.Compare(b.from, a.from), cmp.Compare(b.ID, a.ID))
	})
	return s, nil
}

// Keys returns the keys of the set, the latest NotBefore first. A nil set has none.
func (s *Keyset) Keys() []Key {
	if s == nil {
		return nil
	}
	var list []Key
	for _, k := range s.all {
		list = append(list, k.Key)
	}
	return list
}

// Sending is the id of the key that senders use at a time. It returns false if no key is valid.
func (s *Keyset) Sending(at time.Time) (KeyID, bool) {
	if k := s.sending(at.Unix()); k != nil {
		return k.ID, true
	}
	return 0, false
}

// sending is the key to send with at now, in seconds since 1970; nil if no key is valid.
func (s *Keyset) sending(now int64) *key {
	if s == nil {
		return nil
	}
	for _, k := range s.all {
		if k.from <= now && now < k.until {
			return k
		}
	}
	return nil
}

// opening is the key with an id, if its packets are accepted at now; nil otherwise. known reports whether the key is in
// the set. The key is accepted skew seconds before NotBefore, because the sender's clock may be ahead.
func (s *Keyset) opening(id KeyID, now, skew int64) (use *key, known bool) {
	k := s.byID[id]
	if k == nil {
		return nil, false
	}
	if now >= k.until || k.from != math.MinInt64 && now < k.from-skew {
		return nil, true
	}
	return k, true
}

// period is a period of time, in seconds since 1970. The zero value is empty.
type period struct{ from, until int64 }

func (x period) has(at int64) bool { return x.from <= at && at < x.until }

// steady is the period around now in which no key becomes valid or invalid. Receivers accept a key lead seconds before
// it begins. The period is bounded on both sides because clocks may be set back.
func (s *Keyset) steady(now, lead int64) period {
	x := period{math.MinInt64, math.MaxInt64}
	if s == nil {
		return x
	}
	for _, k := range s.all {
		from := k.from
		if from != math.MinInt64 {
			from -= lead
		}
		for _, at := range []int64{from, k.until} {
			if at <= now {
				x.from = max(x.from, at)
			} else {
				x.until = min(x.until, at)
			}
		}
	}
	return x
}

// block is one block of AES. It is a field of long-lived structs, so that nothing is allocated for it.
type block [aes.BlockSize]byte

// marker makes marks. It belongs to one goroutine at a time.
type marker struct{ in, out block }

// mark computes the mark of a salt in a group: it proves that the salt's author has the key.
func (m *marker) mark(k *key, salt []byte, index uint32) [markLen]byte {
	copy(m.in[:], salt)
	binary.LittleEndian.PutUint32(m.in[saltLen:], index)
	k.marks.Encrypt(m.out[:], m.in[:])
	return [markLen]byte(m.out[:])
}

// derive computes the cipher of one sender (docs/protocol §27.4).
func (k *key) derive(salt []byte, index uint32) (cipher.AEAD, error) {
	var context [senderLen]byte
	copy(context[:], salt)
	binary.LittleEndian.PutUint32(context[saltLen:], index)
	secret, err := hkdf.Key(sha256.New, k.Secret[:], context[:], "fanfare sealed 1 packets", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Provider returns the current keys. Keys is called for each train, by several goroutines at once, and must be fast. It
// must return the same *Keyset until a key changes, and then another one. A nil Keyset has no keys.
type Provider interface {
	Keys() *Keyset
}

// Static is a Provider of keys that never change.
type Static struct{ Keyset *Keyset }

// Keys implements Provider.
func (s Static) Keys() *Keyset { return s.Keyset }
