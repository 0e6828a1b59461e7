package sealed

import (
	"crypto/cipher"
	"errors"
	"fmt"
)

// Unicast is the index of packets sent to one bus; packets to a group have the index of the group.
const Unicast uint32 = unicastIndex

// ErrForged: a packet does not verify with the key that it names.
var ErrForged = errors.New("does not verify with the key that it names: it is damaged or forged, or the keyring has another secret for that key")

// ErrVersion: a packet is sealed in an unknown version of the format. ErrShort: it is truncated.
var (
	ErrVersion = errors.New("is sealed in another, unknown version of the format")
	ErrShort   = errors.New("is truncated: a sealed packet is longer")
)

// LackingError: a packet is sealed with a key that the Reader does not have.
type LackingError struct{ Key KeyID }

func (e *LackingError) Error() string { return fmt.Sprintf("key %v is not given", e.Key) }

// Reader opens packets for a passive observer of traffic: all that verify, whatever their age, including repeats and
// expired keys. It belongs to one goroutine at a time.
type Reader struct {
	keys   map[KeyID]*key
	known  map[sender]*known // senders of which a packet has verified
	buf    []byte
	nonce  [nonceLen]byte
	marker marker
}

// NewReader returns a Reader with keys.
func NewReader(keys *Keyset) *Reader {
	return &Reader{keys: keys.byID, known: make(map[sender]*known)}
}

const (
	maxReadable = 16384 // senders; beyond that all are forgotten, and derived again
	maxGroups   = 1 << 16
)

// Open returns the content of the sealed packet p; it is valid until the next call. index is the index of its group, or
// Unicast; if it is negative Open tries all. The error is a *LackingError, ErrForged, ErrVersion or ErrShort.
func (r *Reader) Open(p []byte, index int64) ([]byte, error) {
	if len(p) <= Overhead || p[0] != magic0 || p[1] != magic1 {
		return nil, ErrShort
	}
	if p[2] != version {
		return nil, ErrVersion
	}
	h := header(p)
	use := r.keys[KeyID(h.key())]
	if use == nil { // also if the sender is known: §27.6
		return nil, &LackingError{KeyID(h.key())}
	}
	k := r.known[h.sender()]
	if k == nil {
		var err error
		if k, err = r.find(use, h, index); err != nil {
			return nil, err
		}
	} else if index >= 0 && k.index != uint32(index) || k.key != use {
		return nil, ErrForged
	}
	h.nonce(&r.nonce)
	in, err := k.aead.Open(r.buf[:0], r.nonce[:], p[headerLen:], p[:headerLen])
	if err != nil {
		return nil, ErrForged
	}
	if r.buf = in; r.known[k.name] == nil {
		if len(r.known) == maxReadable {
			clear(r.known)
		}
		r.known[k.name] = k
	}
	return in, nil
}

// find derives the cipher of a packet's sender, for a packet sealed with use.
func (r *Reader) find(use *key, h header, index int64) (*known, error) {
	first, last := uint32(index), uint32(index)
	if index < 0 {
		first, last = 0, maxGroups
	}
	for ; first <= last; first++ {
		i := first
		if index < 0 && i == maxGroups {
			i = unicastIndex
		}
		if r.marker.mark(use, h[atSender:atMark], i) == [markLen]byte(h[atMark:]) {
			var aead cipher.AEAD
			aead, err := use.derive(h[atSender:atMark], i)
			if err != nil {
				return nil, err
			}
			return &known{name: h.sender(), index: i, key: use, aead: aead}, nil
		}
		if i == unicastIndex {
			break // the next index would be 0
		}
	}
	return nil, ErrForged
}
