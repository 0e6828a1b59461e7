// Package hostile makes packets of an attacker that sees a sealed group's packets but has none of its keys. It is used
// by tests and by fanfare bench throughput -attack.
package hostile

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

// maxRecorded is the maximum number of recorded packets.
const maxRecorded = 1000

// Maker makes hostile packets. It is for one goroutine.
type Maker struct {
	// Random makes the choices.
	Random *rand.Rand
	// Foreign are packets of other senders: sealed with another key, or long ago.
	Foreign [][]byte
	// Reply returns a unicast packet, which the caller may change, or nil if there is none. If Reply is nil there are
	// none.
	Reply func() []byte

	seen [][]byte
}

// See records a packet that was sent to a group, if it is sealed.
func (m *Maker) See(p []byte) {
	switch {
	case len(p) <= sealed.Overhead || p[1] != 's': // unsealed or too short: made by Maker itself
	case len(m.seen) < maxRecorded:
		m.seen = append(m.seen, bytes.Clone(p))
	default:
		m.seen[m.Random.IntN(len(m.seen))] = bytes.Clone(p)
	}
}

// Recorded is the number of recorded packets.
func (m *Maker) Recorded() int { return len(m.seen) }

// Packet makes a hostile packet from recorded ones, and returns its kind. At least one packet must be recorded.
func (m *Maker) Packet() (p []byte, kind string) {
	r := m.Random
	p = bytes.Clone(m.seen[r.IntN(len(m.seen))])
	switch r.IntN(15) {
	case 0:
		return p, "replayed"
	case 1:
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		return p, "one bit changed"
	case 2:
		return p[:1+r.IntN(len(p)-1)], "cut"
	case 3:
		binary.LittleEndian.PutUint32(p[4:], r.Uint32())
		return p, "another counter"
	case 4:
		binary.LittleEndian.PutUint64(p[16:], r.Uint64())
		return p, "an invented salt"
	case 5:
		binary.LittleEndian.PutUint32(p[8:], r.Uint32())
		return p, "another key id"
	case 6:
		binary.LittleEndian.PutUint64(p[32:], r.Uint64())
		return p, "another train"
	case 7:
		q := m.seen[r.IntN(len(m.seen))]
		return append(p[:40:40], q[40:]...), "header of one, content of another"
	case 8:
		if len(m.Foreign) == 0 {
			return p, "replayed"
		}
		return bytes.Clone(m.Foreign[r.IntN(len(m.Foreign))]), "of another key, or epoch"
	case 9:
		return append([]byte("Ff\x01"), p[3:]...), "open"
	case 10:
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		return p, "garbage"
	case 11, 12, 13:
		return m.reply(p)
	}
	return append(p, byte(r.Uint32())), "longer"
}

// reply makes a hostile packet from a unicast packet, if there is one.
func (m *Maker) reply(p []byte) ([]byte, string) {
	var q []byte
	if m.Reply != nil {
		q = m.Reply()
	}
	if q == nil {
		return p, "replayed"
	}
	switch r := m.Random; r.IntN(3) {
	case 0:
		q[r.IntN(len(q))] ^= 1 << r.IntN(8)
		return q, "one bit of a reply changed"
	case 1:
		return append(q[:40:40], p[40:]...), "header of a reply, content of another"
	}
	return q, "a replayed reply"
}

// Sealed returns n packets of size bytes, sealed with a key as a sender does at a time; the zero time means now.
func Sealed(key sealed.Key, n, size int, at time.Time) ([][]byte, error) {
	set, err := sealed.NewKeyset([]sealed.Key{key})
	if err != nil {
		return nil, err
	}
	inner, err := mem.Open(mem.Config{Network: mem.NewNetwork()})
	if err != nil {
		return nil, err
	}
	var sent [][]byte
	cfg := sealed.Config{Keys: sealed.Static{Keyset: set}}
	if !at.IsZero() {
		cfg.Now = func() time.Time { return at }
	}
	s, err := sealed.New(recorder{inner, &sent}, cfg)
	if err != nil {
		return nil, err
	}
	defer end(s)
	tx, err := s.NewSender(0)
	if err != nil {
		return nil, err
	}
	for range n {
		p := append([]byte("Ff\x01\x01"), make([]byte, max(size-sealed.Overhead-4, 1))...)
		if _, err := tx.Send(&transport.Outbound{Data: p, Stride: len(p), Count: 1,
			Lens: []uint16{uint16(len(p))}}); err != nil {
			return nil, err
		}
	}
	return sent, tx.Close()
}

// end closes a transport, and polls until it has ended.
func end(t transport.Transport) {
	t.Close()
	for b := transport.NewBatch(1); t.Poll(b) == nil; {
	}
}

// recorder records the packets sent to groups.
type recorder struct {
	transport.Transport
	sent *[][]byte
}

func (r recorder) NewSender(group int) (transport.Sender, error) {
	tx, err := r.Transport.NewSender(group)
	return recordingSender{tx, r.sent}, err
}

type recordingSender struct {
	transport.Sender
	sent *[][]byte
}

func (r recordingSender) Send(out *transport.Outbound) (int, error) {
	*r.sent = append(*r.sent, slices.Clone(out.Data[:out.Lens[0]]))
	return r.Sender.Send(out)
}
