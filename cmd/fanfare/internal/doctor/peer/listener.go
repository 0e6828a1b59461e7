package peer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	maxSessions    = 8
	sessionTime    = 30 * time.Second // a session without a packet for this time is removed
	bytesPerSecond = 2 << 20          // rate of probes of all sessions together, and its burst
	maxRun         = 512              // probes per request
)

func newBudget() *rate.Limiter { return rate.NewLimiter(bytesPerSecond, bytesPerSecond) }

// responder is the listener without its sockets. It is not safe for concurrent use.
type responder struct {
	secret   [32]byte // for cookies, random
	info     func() Info
	sessions map[netip.AddrPort]*session
	budget   *rate.Limiter // of bytes
}

type session struct {
	id    uint64
	last  time.Time
	tally [rows]Tally
	ran   uint32 // number of the last run, 0: none
	sent  uint32 // probes sent in that run
}

// reply is a packet to the client, sent after the probes of run, if any.
type reply struct {
	packet packet
	run    *run
}

type run struct {
	Row   row
	Count int
	Size  int    // payload of each probe in bytes
	First uint32 // number of the first probe
	Port  uint16 // port of the client that probes of rowReply are sent to
}

// cookie proves that the owner of address from received the challenge.
func (r *responder) cookie(from netip.AddrPort, session uint64) uint64 {
	mac := hmac.New(sha256.New, r.secret[:])
	text, _ := from.MarshalBinary() // never fails
	mac.Write(binary.BigEndian.AppendUint64(text, session))
	return binary.BigEndian.Uint64(mac.Sum(nil))
}

// handle processes a unicast packet of size bytes and returns the reply; nil: none. The caller
// sends the probes of a run, and passes their number to ran.
func (r *responder) handle(p packet, a arrival, from netip.AddrPort, now time.Time) *reply {
	answer := packet{FromListener: true, Session: p.Session, Cookie: p.Cookie, Row: p.Row, Number: p.Number}
	if p.Kind == kindHello {
		if a.Size < helloSize {
			return nil
		}
		answer.Kind, answer.Cookie = kindChallenge, r.cookie(from, p.Session)
		if r.expire(now); r.sessions[from] == nil && len(r.sessions) >= maxSessions {
			answer.Kind, answer.Cookie = kindBusy, 0
		}
		return &reply{packet: answer}
	}
	if p.FromListener || !hmac.Equal(binary.BigEndian.AppendUint64(nil, p.Cookie),
		binary.BigEndian.AppendUint64(nil, r.cookie(from, p.Session))) {
		return nil
	}
	r.expire(now)
	s := r.sessions[from]
	if s != nil && s.id != p.Session { // the client has restarted
		delete(r.sessions, from)
		s = nil
	}
	if s == nil {
		if len(r.sessions) >= maxSessions {
			answer.Kind = kindBusy
			return &reply{packet: answer}
		}
		s = &session{id: p.Session}
		r.sessions[from] = s
	}
	s.last = now
	switch p.Kind {
	case kindEcho:
		answer.Kind, answer.Sent, answer.Received = kindEchoed, p.Sent, now.UnixNano()
		return &reply{packet: answer}
	case kindProbe:
		if p.Row < rows {
			s.tally[p.Row].add(p.Number, a)
		}
	case kindRequest:
		if a.Size < requestSize {
			break
		}
		var body any = r.info()
		if p.Row < rows {
			body = &s.tally[p.Row]
		}
		// fixed fields and short texts: encoding cannot fail, and the size is below requestSize
		answer.Kind = kindReport
		answer.Body, _ = json.Marshal(body)
		if len(answer.Body) > requestSize-headerSize {
			break
		}
		return &reply{packet: answer}
	case kindRun:
		return r.run(s, p, answer, now)
	}
	return nil
}

// run answers kindRun. A repeated request is answered without new probes.
func (r *responder) run(s *session, p, answer packet, now time.Time) *reply {
	if p.Row >= rows || p.Number == 0 {
		return nil
	}
	answer.Kind = kindRan
	if p.Number == s.ran {
		answer.Count = s.sent
		return &reply{packet: answer}
	}
	if p.Count == 0 || p.Count > maxRun || p.Size < headerSize || p.Size > maxSize {
		return nil
	}
	if !r.budget.AllowN(now, int(p.Count)*int(p.Size)) {
		answer.Kind = kindBusy
		return &reply{packet: answer}
	}
	return &reply{packet: answer,
		run: &run{Row: p.Row, Count: int(p.Count), Size: int(p.Size), First: uint32(p.Received), Port: uint16(p.Sent)}}
}

func (r *responder) ran(from netip.AddrPort, number, sent uint32) {
	if s := r.sessions[from]; s != nil {
		s.ran, s.sent = number, sent
	}
}

// probe counts a multicast probe of a session, which must come from the client's address.
func (r *responder) probe(p packet, a arrival, from netip.AddrPort, now time.Time) {
	if p.Kind != kindProbe || p.FromListener || p.Row >= rows {
		return
	}
	if s := r.sessions[from]; s != nil && s.id == p.Session && now.Sub(s.last) <= sessionTime {
		s.tally[p.Row].add(p.Number, a)
	}
}

// replyProbe counts a probe sent like a status: it carries the cookie of its session and comes from
// the client's address, with any port.
func (r *responder) replyProbe(p packet, a arrival, from netip.AddrPort, now time.Time) {
	if p.Kind != kindProbe || p.FromListener || p.Row != rowReply {
		return
	}
	for address, s := range r.sessions {
		if s.id == p.Session && address.Addr() == from.Addr() && p.Cookie == r.cookie(address, s.id) &&
			now.Sub(s.last) <= sessionTime {
			s.tally[rowReply].add(p.Number, a)
		}
	}
}

func (r *responder) expire(now time.Time) {
	for from, s := range r.sessions {
		if now.Sub(s.last) > sessionTime {
			delete(r.sessions, from)
		}
	}
}

const unicastTTL = 64 // TTL of unicast packets: the TTL received shows the number of routers on the path

// Listener answers a client. Open it with Listen.
type Listener struct {
	conn      *conn
	igmp      *igmp
	cfg       Config
	onRequest func(from netip.AddrPort)

	mu sync.Mutex
	r  responder // guarded by mu
}

// Listen opens the listener's sockets. onRequest is called for each new client.
func Listen(cfg Config, onRequest func(from netip.AddrPort)) (*Listener, error) {
	c, err := openConn(cfg, cfg.Group.Port())
	if err != nil {
		return nil, err
	}
	l := &Listener{conn: c, igmp: watchIGMP(cfg), cfg: cfg, onRequest: onRequest}
	l.r = responder{sessions: make(map[netip.AddrPort]*session), budget: newBudget(),
		info: func() Info { return info(cfg, c, l.igmp) }}
	rand.Read(l.r.secret[:]) // never fails
	return l, nil
}

func info(cfg Config, c *conn, i *igmp) Info {
	host, _ := os.Hostname() // for display only
	in := Info{Host: host, Interface: cfg.Interface.Name, Group: cfg.Group.String(), MTU: cfg.Interface.MTU,
		GSO: c.gso, GRO: c.gro, Environment: cfg.Environment}
	i.fill(&in)
	return in.clean()
}

func (l *Listener) Run(ctx context.Context) {
	var readers sync.WaitGroup
	readers.Go(func() {
		receive(l.conn.uni, func(b []byte, a arrival, from netip.AddrPort) {
			if p, err := parse(b); err == nil {
				l.answer(p, a, from)
			}
		})
	})
	countAll := func(from *net.UDPConn, count func(packet, arrival, netip.AddrPort, time.Time)) {
		receive(from, func(b []byte, a arrival, from netip.AddrPort) {
			if p, err := parse(b); err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				count(p, a, from, time.Now())
			}
		})
	}
	readers.Go(func() { countAll(l.conn.multi, l.r.probe) })
	readers.Go(func() { countAll(l.conn.publishes, l.r.replyProbe) })
	<-ctx.Done()
	l.conn.close()
	readers.Wait()
	l.igmp.close()
}

func (l *Listener) answer(p packet, a arrival, from netip.AddrPort) {
	l.mu.Lock()
	before := l.r.sessions[from]
	reply := l.r.handle(p, a, from, time.Now())
	began := l.r.sessions[from] != before
	l.mu.Unlock()
	if began {
		l.onRequest(from)
	}
	if reply == nil {
		return
	}
	if reply.run != nil { // only the goroutine of the unicast socket sends runs, so they do not overlap
		probe, to := packet{FromListener: true, Session: p.Session}, from
		if reply.run.Row == rowReply {
			l.conn.publish((&packet{Kind: kindProbe, Row: rowReply, FromListener: true, Session: p.Session}).append(nil,
				probeSize))
			to = netip.AddrPortFrom(from.Addr(), reply.run.Port)
		}
		sent := uint32(l.conn.sendRow(probe, *reply.run, to))
		reply.packet.Count = sent
		l.mu.Lock()
		l.r.ran(from, p.Number, sent)
		l.mu.Unlock()
	}
	if p.Kind == kindRun && p.Row == rowReply {
		reply.packet.Size = uint64(l.conn.replyPort())
	}
	// If it is lost, the client requests again.
	_ = l.conn.send(reply.packet.append(nil, 0), from)
}
