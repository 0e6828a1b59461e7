package peer

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// unicastTTL is what unicast goes out with, from which the networks on the way are told.
const unicastTTL = 64

// Listener answers an asker. Open it with Listen.
type Listener struct {
	conn *conn
	igmp *igmp
	cfg  Config
	told func(from netip.AddrPort)

	mu sync.Mutex
	r  responder // by mu
}

// Listen opens the listener's sockets. asked is called for each new asker.
func Listen(cfg Config, asked func(from netip.AddrPort)) (*Listener, error) {
	c, err := openConn(cfg, cfg.Group.Port())
	if err != nil {
		return nil, err
	}
	l := &Listener{conn: c, igmp: hearIGMP(cfg), cfg: cfg, told: asked}
	l.r = responder{sessions: make(map[netip.AddrPort]*session), bytes: bytesPerSecond, filled: time.Now(), info: func() Info { return info(cfg, c, l.igmp) }}
	rand.Read(l.r.secret[:]) // never fails
	return l, nil
}

func info(cfg Config, c *conn, i *igmp) Info {
	host, _ := os.Hostname() // for people only
	in := Info{Host: host, Interface: cfg.Interface.Name, Group: cfg.Group.String(), MTU: cfg.Interface.MTU, GSO: c.gso, GRO: c.gro, Environment: cfg.Environment}
	i.tell(&in)
	return in.clean()
}

// Run answers until ctx ends; then the sockets are closed.
func (l *Listener) Run(ctx context.Context) {
	var readers sync.WaitGroup
	readers.Go(func() {
		receive(l.conn.uni, func(b []byte, a arrival, from netip.AddrPort) {
			if p, err := parse(b); err == nil {
				l.answer(p, a, from)
			}
		})
	})
	hear := func(from *net.UDPConn, heard func(packet, arrival, netip.AddrPort, time.Time)) {
		receive(from, func(b []byte, a arrival, from netip.AddrPort) {
			if p, err := parse(b); err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				heard(p, a, from, time.Now())
			}
		})
	}
	readers.Go(func() { hear(l.conn.multi, l.r.heard) })
	readers.Go(func() { hear(l.conn.publishes, l.r.heardReply) })
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
		l.told(from)
	}
	if reply == nil {
		return
	}
	if reply.run != nil { // the goroutine of the unicast socket sends: one run at a time
		probe, to := packet{FromListener: true, Session: p.Session}, from
		if reply.run.Row == rowReply {
			l.conn.publish((&packet{Kind: kindProbe, Row: rowReply, FromListener: true, Session: p.Session}).append(nil, probeSize))
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
	// What is lost the asker asks for again.
	_ = l.conn.send(reply.packet.append(nil, 0), from)
}
