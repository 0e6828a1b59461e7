package peer

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func newResponder() *responder {
	return &responder{sessions: make(map[netip.AddrPort]*session), budget: newBudget(), secret: [32]byte{1}, info: func() Info {
		long := strings.Repeat("\x1b[2J\"", 1000)
		return Info{Host: long, Interface: long, Environment: long, NoIGMPReason: long, Querier: long, Listened: 1e300, QuerierEvery: 1e300, MTU: 1 << 62}.clean()
	}}
}

func address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 5000)
}

// sized returns the length of an answer as it is sent, in bytes; 0 without an answer.
func (r *reply) sized() int {
	if r == nil {
		return 0
	}
	return len(r.packet.append(nil, 0))
}

// join requests the cookie for an address, and begins its session.
func join(t *testing.T, r *responder, from netip.AddrPort, id uint64, now time.Time) (cookie uint64, got *reply) {
	t.Helper()
	hello := r.handle(packet{Kind: kindHello, Session: id}, arrival{Size: helloSize}, from, now)
	if hello == nil || hello.packet.Kind != kindChallenge {
		return 0, hello
	}
	cookie = hello.packet.Cookie
	return cookie, r.handle(packet{Kind: kindEcho, Session: id, Cookie: cookie}, arrival{Size: headerSize}, from, now)
}

// An address that has not proved that it receives packets of the listener gets fewer bytes than it
// sends and occupies no memory, so packets with a forged source are useless to an attacker.
func TestNoAmplification(t *testing.T) {
	r, now := newResponder(), time.Unix(1000, 0)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 100_000 {
		p := packet{
			Kind: kind(rnd.IntN(int(kindProbe)) + 1), Row: row(rnd.IntN(int(rows))), FromListener: rnd.IntN(5) == 0, Session: rnd.Uint64N(3), Cookie: rnd.Uint64(),
			Number: rnd.Uint32N(3), Count: rnd.Uint32(), Size: rnd.Uint64(),
		}
		if rnd.IntN(3) == 0 {
			p.Row = rowInfo
		}
		size := headerSize + rnd.IntN(1000)
		got := r.handle(p, arrival{Size: size}, address(rnd.IntN(1000)), now)
		if got != nil && (got.run != nil || got.packet.Kind != kindChallenge && got.packet.Kind != kindBusy) {
			t.Fatalf("packet %d, %+v of %d bytes, is answered by %+v, want nothing, a challenge or a refusal as busy", i, p, size, got)
		}
		if got != nil && size < 4*got.sized() {
			t.Fatalf("%+v of %d bytes is answered by %d, want at most a fourth", p, size, got.sized())
		}
		r.probe(p, arrival{Size: size}, address(rnd.IntN(1000)), now)
	}
	if len(r.sessions) != 0 {
		t.Errorf("%d sessions, want none", len(r.sessions))
	}
}

// A cookie is valid for one address and one session.
func TestCookie(t *testing.T) {
	r, now := newResponder(), time.Unix(1000, 0)
	cookie, got := join(t, r, address(1), 7, now)
	if got == nil || got.packet.Kind != kindEchoed || len(r.sessions) != 1 {
		t.Fatalf("answer %+v with %d sessions, want an echo and 1 session", got, len(r.sessions))
	}
	for name, try := range map[string]func() *reply{
		"another address": func() *reply {
			return r.handle(packet{Kind: kindEcho, Session: 7, Cookie: cookie}, arrival{Size: headerSize}, address(2), now)
		},
		"another session": func() *reply {
			return r.handle(packet{Kind: kindEcho, Session: 8, Cookie: cookie}, arrival{Size: headerSize}, address(1), now)
		},
		"another cookie": func() *reply {
			return r.handle(packet{Kind: kindEcho, Session: 7, Cookie: cookie + 1}, arrival{Size: headerSize}, address(1), now)
		},
		"another listener's process": func() *reply {
			other := newResponder()
			other.secret[0] = 2
			return other.handle(packet{Kind: kindEcho, Session: 7, Cookie: cookie}, arrival{Size: headerSize}, address(1), now)
		},
		"as a listener": func() *reply {
			return r.handle(packet{Kind: kindEcho, Session: 7, Cookie: cookie, FromListener: true}, arrival{Size: headerSize}, address(1), now)
		},
	} {
		if got := try(); got != nil {
			t.Errorf("%s: answer %+v, want none", name, got)
		}
	}
	// A hello in the name of a client does not end its session.
	r.handle(packet{Kind: kindProbe, Session: 7, Cookie: cookie, Row: rowUnicast}, arrival{}, address(1), now)
	r.handle(packet{Kind: kindHello, Session: 9}, arrival{Size: helloSize}, address(1), now)
	if s := r.sessions[address(1)]; s == nil || s.id != 7 || s.tally[rowUnicast].Received != 1 {
		t.Errorf("session %+v, want session 7 with 1 probe received", s)
	}
}

// The number of sessions is bounded, and quiet ones are removed.
func TestSessions(t *testing.T) {
	r, now := newResponder(), time.Unix(1000, 0)
	for i := range 100 {
		_, got := join(t, r, address(i), 7, now)
		if busy := got != nil && got.packet.Kind == kindBusy; busy != (i >= maxSessions) {
			t.Errorf("client %d is answered by %+v, want a refusal as busy: %v", i, got, i >= maxSessions)
		}
	}
	if len(r.sessions) != maxSessions {
		t.Errorf("%d sessions, want %d", len(r.sessions), maxSessions)
	}
	now = now.Add(sessionTime + 1)
	if _, got := join(t, r, address(200), 7, now); got.packet.Kind != kindEchoed || len(r.sessions) != 1 {
		t.Errorf("after all have expired: %+v, %d sessions", got, len(r.sessions))
	}
	// A client may restart, which resets its counts.
	r.probe(packet{Kind: kindProbe, Session: 7}, arrival{}, address(200), now)
	if _, got := join(t, r, address(200), 8, now); got.packet.Kind != kindEchoed || r.sessions[address(200)].tally[0].Received != 0 || len(r.sessions) != 1 {
		t.Errorf("after a restart: %+v", got)
	}
}

// Probes are bounded, in a run and in all runs together, and each run is sent once.
func TestRuns(t *testing.T) {
	r, now := newResponder(), time.Unix(1000, 0)
	cookie, _ := join(t, r, address(1), 7, now)
	number := uint32(0)
	request := func(row row, count uint32, size uint64) *reply {
		number++
		return r.handle(packet{Kind: kindRun, Row: row, Session: 7, Cookie: cookie, Number: number, Count: count, Size: size}, arrival{Size: headerSize}, address(1), now)
	}
	for name, got := range map[string]*reply{
		"none": request(0, 0, 100), "too many": request(0, maxRun+1, 100), "too small": request(0, 1, headerSize-1), "too large": request(0, 1, maxSize+1),
		"huge": request(0, 1, 1<<64-1), "of no row": request(rowInfo, 1, 100),
	} {
		if got != nil {
			t.Errorf("request for %s: answer %+v, want none", name, got)
		}
	}
	got := request(rowTrain, 100, 512)
	if got == nil || got.run == nil || *got.run != (run{Row: rowTrain, Count: 100, Size: 512}) {
		t.Fatalf("answer %+v, want a run of 100 probes of 512 bytes", got)
	}
	r.ran(address(1), number, 99)
	number--
	if again := request(rowTrain, 100, 512); again == nil || again.run != nil || again.packet.Count != 99 {
		t.Errorf("a second request is answered by %+v, want no run and 99 probes left", again)
	}
	bytes := 0.0
	for second := range 5 {
		now = now.Add(time.Second)
		for range 1000 {
			if got := request(rowMulticast, maxRun, 1472); got.run != nil {
				bytes += float64(got.run.Count * got.run.Size)
			} else if got.packet.Kind != kindBusy {
				t.Fatalf("answer %+v, want a run or a refusal as busy", got)
			}
		}
		if limit := float64(second+2) * bytesPerSecond; bytes > limit || bytes < limit/3 {
			t.Errorf("%.0f bytes after %d s, the limit is %.0f", bytes, second, limit)
		}
	}
}

// Reports are no larger than their requests, also with a long host name.
func TestReports(t *testing.T) {
	r, now := newResponder(), time.Unix(1000, 0)
	cookie, _ := join(t, r, address(1), 7, now)
	for row := range rows {
		r.sessions[address(1)].tally[row] = Tally{Received: 1 << 62, Duplicates: 1 << 62, Reordered: 1 << 62, Merged: 1 << 62, Largest: 1 << 62, TTL: 255, Latest: 1<<32 - 1}
	}
	for _, row := range []row{rowMulticast, rowInfo} {
		p := packet{Kind: kindRequest, Row: row, Session: 7, Cookie: cookie, Number: 3}
		got := r.handle(p, arrival{Size: requestSize}, address(1), now)
		if got.sized() == 0 || got.sized() > requestSize || !json.Valid(got.packet.Body) {
			t.Errorf("row %d: answer of %d bytes, want JSON of at most %d: %s", row, got.sized(), requestSize, got.packet.Body)
		}
		if got := r.handle(p, arrival{Size: requestSize - 1}, address(1), now); got != nil {
			t.Errorf("a smaller request is answered by %+v, want no answer", got)
		}
	}
	if got := (Info{Host: "a\x1b]0;title\x07b", Querier: "ünï\xff\"\\"}).clean(); got.Host != "a?]0;title?b" || got.Querier != "?n???"+"?" {
		t.Errorf(`cleaned info: host %q, querier %q, want "a?]0;title?b" and "?n????"`, got.Host, got.Querier)
	}
}

// Multicast probes count only for the session of their source address.
func TestMulticastProbes(t *testing.T) {
	r, now := newResponder(), time.Unix(1000, 0)
	join(t, r, address(1), 7, now)
	for i, c := range []struct {
		p    packet
		from netip.AddrPort
		want int
	}{
		{packet{Kind: kindProbe, Session: 7, Number: 1}, address(1), 1},
		{packet{Kind: kindProbe, Session: 7, Number: 2}, address(2), 1},
		{packet{Kind: kindProbe, Session: 8, Number: 3}, address(1), 1},
		{packet{Kind: kindEcho, Session: 7, Number: 4}, address(1), 1},
		{packet{Kind: kindProbe, Session: 7, Number: 5, FromListener: true}, address(1), 1},
		{packet{Kind: kindProbe, Session: 7, Number: 6, Row: rowInfo}, address(1), 1},
		{packet{Kind: kindProbe, Session: 7, Number: 7}, address(1), 2},
	} {
		r.probe(c.p, arrival{}, c.from, now)
		if got := r.sessions[address(1)].tally[rowMulticast].Received; got != c.want || len(r.sessions) != 1 {
			t.Errorf("probe %d: %d probes received, want %d", i, got, c.want)
		}
	}
}
