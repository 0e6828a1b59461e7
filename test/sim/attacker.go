package sim

import (
	"encoding/binary"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// source address of the attacker's packets, unused by nodes
const attackerAddress = 1 << 20

// attacker receives the packets of the group and sends packets of its own. Without Sealing packets
// are not authenticated: then it forges nothing that a publisher could have sent within the window.
// With Sealing it also receives unicast, and sends anything.
type attacker struct {
	sim      *sim
	captured [][]byte
	next     int
	buf      []byte
	kinds    []func() []byte
}

func newAttacker(s *sim) *attacker {
	a := &attacker{sim: s}
	o := &s.o.Attack
	for _, k := range []struct {
		on bool
		f  func() []byte
	}{
		{o.Garbage, a.garbage}, {o.Truncate, a.truncate}, {o.Damage && (s.o.Checksum || s.o.Sealing != nil), a.damage},
		{o.Replay, a.replay}, {o.Far, a.far}, {o.Forge, a.forge}, {o.Splice, a.splice}, {o.Stranger, a.stranger},
	} {
		if k.on {
			a.kinds = append(a.kinds, k.f)
		}
	}
	return a
}

// capture records some packets, old and new.
func (a *attacker) capture(p *packet) { a.add(p.b) }

func (a *attacker) add(b []byte) {
	if len(a.captured) < 64 {
		a.captured = append(a.captured, append([]byte(nil), b...))
		return
	}
	if a.sim.net.draw(Always / 8) {
		a.captured[a.next] = append(a.captured[a.next][:0], b...)
		a.next = (a.next + 1) % len(a.captured)
	}
}

// lateAttackInterval multiplies the interval of attacks after the end of the faults, when the rest
// of the run takes a hundred times as long.
const lateAttackInterval = 16

// act sends one packet to all nodes.
func (a *attacker) act() {
	s := a.sim
	every := s.o.Attack.Every
	if s.now >= s.net.soundAt {
		if every *= lateAttackInterval; !s.o.Attack.Lasts {
			return
		}
	}
	if len(a.kinds) == 0 {
		return
	}
	s.q.push(event{at: s.now.Add(s.net.upTo(2 * every)), kind: attack})
	b := a.kinds[s.net.rng.IntN(len(a.kinds))]()
	if b == nil {
		return
	}
	s.report.Attacks++
	s.trace("attacker sends %v", describe{b})
	p := s.net.pool.get(b, attackerAddress)
	for i := range s.subscribers {
		p.refs++
		s.q.push(event{at: s.now.Add(s.o.Net.Latency), kind: atSubscriber, node: int16(i), p: p})
	}
	for i := range s.publishers {
		p.refs++
		s.q.push(event{at: s.now.Add(s.o.Net.Latency), kind: atPublisher, node: int16(i), p: p})
	}
	s.net.pool.drop(p)
}

func (a *attacker) any() []byte {
	if len(a.captured) == 0 {
		return nil
	}
	a.buf = append(a.buf[:0], a.captured[a.sim.net.rng.IntN(len(a.captured))]...)
	return a.buf
}

func (a *attacker) garbage() []byte {
	rng := a.sim.net.rng
	a.buf = a.buf[:0]
	for range rng.IntN(200) {
		a.buf = append(a.buf, byte(rng.Uint32()))
	}
	if len(a.buf) > 4 && a.sim.net.draw(Always/2) {
		copy(a.buf, []byte{'F', 'f', wire.Version, byte(1 + rng.IntN(7))})
	}
	return a.buf
}

func (a *attacker) truncate() []byte {
	b := a.any()
	if len(b) == 0 {
		return nil
	}
	b = b[:a.sim.net.rng.IntN(len(b))]
	if len(b) >= wire.HeaderLen && !a.sim.o.Checksum && wire.Type(b[3]) == wire.TypeData {
		return nil // without a checksum, a data packet cut between messages is valid
	}
	return b
}

func (a *attacker) damage() []byte {
	b := a.any()
	if len(b) == 0 {
		return nil
	}
	i := 5 + a.sim.net.rng.IntN(len(b)-5) // the flags are not protected
	b[i] ^= byte(1 + a.sim.net.rng.IntN(255))
	return b
}

func (a *attacker) replay() []byte { return a.any() }

// splice joins the beginning of one packet and the end of another.
func (a *attacker) splice() []byte {
	b := a.any()
	if b == nil {
		return nil
	}
	rng := a.sim.net.rng
	other := a.captured[rng.IntN(len(a.captured))]
	at := rng.IntN(min(len(b), len(other)) + 1)
	a.buf = append(b[:at], other[at:]...)
	return a.buf
}

func (a *attacker) stranger() []byte {
	return a.sim.o.Sealing.Stranger(time.Duration(a.sim.now), a.sim.net.rng.Uint64())
}

// far moves a data packet or heartbeat of a live stream far ahead in the sequence.
func (a *attacker) far() []byte {
	b := a.any()
	if len(b) < wire.DataHeaderLen || wire.Type(b[3]) != wire.TypeData {
		return nil
	}
	jump := 1<<20 + a.sim.net.rng.Uint64N(1<<40)
	wire.SetSeq(b, binary.LittleEndian.Uint64(b[32:])+jump)
	return a.setChecksum(b)
}

// forge creates a stream of an unknown publisher.
func (a *attacker) forge() []byte {
	b := a.any()
	if len(b) < wire.HeaderLen {
		return nil
	}
	binary.LittleEndian.PutUint64(b[16:], a.sim.net.rng.Uint64())
	return a.setChecksum(b)
}

func (a *attacker) setChecksum(b []byte) []byte {
	if a.sim.o.Checksum {
		wire.SetChecksum(b)
	}
	return b
}
