// Package peer tests, together with a second host, how the network between the two handles multicast: fanfare doctor
// -listen answers, fanfare doctor -peer asks.
//
// The client controls the test. It sends numbered probes by multicast and by unicast, and asks the listener how many
// arrived. It makes the listener send probes, and counts those that arrive. Unicast in the same direction is the
// reference for multicast.
//
//	# Untrusted senders
//
// To an address that has not proved that it receives the listener's packets, a listener sends only a challenge,
// smaller than the hello that it answers; all other packets must carry the cookie of the challenge. To other addresses
// and to the group it sends at most bytesPerSecond. It has maxSessions sessions of fixed size (decision 50).
package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

var (
	// ErrNoAnswer: the peer's address and port do not answer.
	ErrNoAnswer = errors.New("no answer")
	// ErrBusy: the listener has its maximum number of clients.
	ErrBusy = errors.New("the listener is busy with other hosts")
)

const (
	replyTime = 300 * time.Millisecond // time to wait for a reply before asking again
	tries     = 6
	settle    = 100 * time.Millisecond // time for the last probes of a row to arrive

	quietPolls = 5 // polls of an incomplete row without news, after which its missing probes count as lost
)

type client struct {
	conn     *conn
	igmp     *igmp
	cfg      Config
	peer     netip.AddrPort
	session  uint64
	cookie   uint64
	runs     uint32 // counter of runs
	requests uint32 // counter of all other requests

	replies chan timed // from the reader; at most one is awaited

	mu    sync.Mutex
	tally [rows]Tally // sent by the peer; guarded by mu
}

type timed struct {
	packet
	at time.Time
}

// Examine tests the network to the peer, then watches it for the rest of the given time, and returns
// the results. progress is called with the name of each step. Its error matches ErrNoAnswer or
// ErrBusy, is the error of opening the sockets, or the error of ctx.
func Examine(ctx context.Context, cfg Config, peer netip.AddrPort, watch time.Duration,
	progress func(string)) (*Result, error) {
	c, err := openConn(cfg, 0)
	if err != nil {
		return nil, err
	}
	k := &client{conn: c, igmp: watchIGMP(cfg), cfg: cfg, peer: peer, replies: make(chan timed, 64)}
	var id [8]byte
	rand.Read(id[:]) // never fails
	k.session = binary.BigEndian.Uint64(id[:])
	var readers sync.WaitGroup
	readers.Go(func() { receive(c.uni, k.handle) })
	readers.Go(func() { receive(c.multi, k.handle) })
	readers.Go(func() { receive(c.publishes, k.handleReply) })
	defer func() {
		c.close()
		readers.Wait()
		k.igmp.close()
	}()
	if err := k.hello(ctx); err != nil {
		return nil, err
	}
	return k.examine(ctx, watch, progress)
}

func (k *client) handle(b []byte, a arrival, from netip.AddrPort) {
	p, err := parse(b)
	if err != nil || !p.FromListener || p.Session != k.session || from != k.peer {
		return
	}
	switch {
	case p.Kind != kindProbe:
		p.Body = bytes.Clone(p.Body)
		select {
		case k.replies <- timed{p, time.Now()}:
		default: // more replies than awaited
		}
	case p.Row < rows:
		k.count(p, a)
	}
}

func (k *client) handleReply(b []byte, a arrival, from netip.AddrPort) {
	p, err := parse(b)
	if err == nil && p.FromListener && p.Session == k.session && p.Kind == kindProbe && p.Row == rowReply &&
		from.Addr() == k.peer.Addr() {
		k.count(p, a)
	}
}

func (k *client) count(p packet, a arrival) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tally[p.Row].add(p.Number, a)
}

// exchange sends a packet until a reply of kind want arrives. While the listener is busy it waits.
func (k *client) exchange(ctx context.Context, p packet, size int, want kind, times int) (timed, error) {
	busy := 0
	for try := 0; try < times; try++ {
		if err := k.conn.send(p.append(nil, size), k.peer); err != nil && ctx.Err() == nil {
			return timed{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		r, err := k.await(ctx, p, want)
		switch {
		case err != nil:
			return timed{}, err
		case r.Kind == want:
			return r, nil
		case r.Kind == kindBusy:
			if busy++; busy > 20 {
				return timed{}, ErrBusy
			}
			if err := sleep(ctx, replyTime); err != nil {
				return timed{}, err
			}
			try--
		}
	}
	return timed{}, ErrNoAnswer
}

// await waits for the reply to a packet; kind 0 means timeout.
func (k *client) await(ctx context.Context, p packet, want kind) (timed, error) {
	// the listener first sends the whole run
	limit := time.NewTimer(replyTime + time.Duration(p.Count)*time.Millisecond)
	defer limit.Stop()
	for {
		select {
		case r := <-k.replies:
			if (r.Kind == want || r.Kind == kindBusy) && r.Row == p.Row && r.Number == p.Number {
				return r, nil
			}
		case <-limit.C:
			return timed{}, nil
		case <-ctx.Done():
			return timed{}, context.Cause(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *client) hello(ctx context.Context) error {
	r, err := k.exchange(ctx, packet{Kind: kindHello, Session: k.session}, helloSize, kindChallenge, tries)
	k.cookie = r.Cookie
	return err
}

func (k *client) ours(kind kind, row row) packet {
	k.requests++
	return packet{Kind: kind, Row: row, Session: k.session, Cookie: k.cookie, Number: k.requests}
}

func (k *client) request(ctx context.Context, row row, into any) error {
	r, err := k.exchange(ctx, k.ours(kindRequest, row), requestSize, kindReport, tries)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("parsing the report of %v: %w", k.peer, err)
	}
	return nil
}

func (k *client) requestTally(ctx context.Context, row row, t *Tally) error {
	err := k.request(ctx, row, t)
	*t = t.clean()
	return err
}

func (k *client) run(ctx context.Context, r run) (sent int, err error) {
	got, err := k.requestRun(ctx, r, 0)
	return min(int(got.Count), r.Count), err
}

// requestRun makes the listener send probes, those of rowReply to a port, and returns its answer.
func (k *client) requestRun(ctx context.Context, r run, port int64) (packet, error) {
	k.runs++
	p := packet{
		Kind: kindRun, Row: r.Row, Session: k.session, Cookie: k.cookie, Number: k.runs,
		Count: uint32(r.Count), Size: uint64(r.Size), Received: int64(r.First), Sent: port,
	}
	got, err := k.exchange(ctx, p, 0, kindRan, tries)
	return got.packet, err
}

func (k *client) mine(row row) Tally {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tally[row]
}
