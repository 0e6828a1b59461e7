package peer

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

type Config struct {
	Interface   net.Interface
	Addr        netip.Addr     // IPv4 address of Interface
	Group       netip.AddrPort // multicast group and UDP port of both sides
	TTL         int            // of multicast
	Environment string         // what prevents multicast on this host; empty: nothing
}

type Info struct {
	Host        string `json:"host"`
	Interface   string `json:"interface"`
	Group       string `json:"group,omitempty"` // multicast group of doctor; empty: unknown
	MTU         int    `json:"mtu"`
	GSO         bool   `json:"gso"` // the kernel splits trains
	GRO         bool   `json:"gro"` // the kernel may merge packets
	Environment string `json:"environment,omitempty"`
	// ReceivesIGMP reports whether IGMP queries can be received; NoIGMPReason is the reason if not.
	ReceivesIGMP bool    `json:"hears_igmp"`
	NoIGMPReason string  `json:"hears_igmp_not,omitempty"`
	Querier      string  `json:"igmp_querier,omitempty"` // address of the latest sender of a query
	QuerierEvery float64 `json:"igmp_query_seconds,omitempty"`
	IGMPVersion  int     `json:"igmp_version,omitempty"` // of the query
	Listened     float64 `json:"listened_seconds"`
}

// maxText bounds each text of Info, in bytes, so that the whole fits in a report.
const maxText = 48

// short truncates a text from another host and removes control characters.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxText)]
}

// clean bounds the texts of an Info from the other side.
func (i Info) clean() Info {
	for _, text := range []*string{&i.Host, &i.Interface, &i.Environment, &i.Group, &i.NoIGMPReason, &i.Querier} {
		*text = short(*text)
	}
	return i
}

const probeEvery = 100 * time.Microsecond // interval of probes that are sent one by one

// sendRow sends a row of probes, and returns how many the kernel accepted: none if their size
// exceeds the interface's MTU.
func (c *conn) sendRow(p packet, r run, to netip.AddrPort) (sent int) {
	p.Kind, p.Row = kindProbe, r.Row
	send := c.send
	switch r.Row {
	case rowUnicast, rowSize:
	case rowReply:
		send = c.reply
	default:
		to = c.group
	}
	if r.Row == rowTrain {
		return c.sendTrains(p, r, to)
	}
	// A busy host sleeps too long. All probes that are due are then sent together, up to the size of a
	// train, so that the row ends before the client gives up.
	began, together := time.Now(), 0
	for i := range r.Count {
		p.Number = r.First + uint32(i)
		if send(p.append(nil, r.Size), to) == nil {
			sent++
		}
		if wait := time.Until(began.Add(time.Duration(i+1) * probeEvery)); wait > 0 || together == trainProbes-1 {
			time.Sleep(max(wait, probeEvery))
			together = 0
		} else {
			together++
		}
	}
	return sent
}

const trainProbes = 16 // probes in a train

func (c *conn) sendTrains(p packet, r run, to netip.AddrPort) (sent int) {
	for sent < r.Count {
		n := min(trainProbes, r.Count-sent)
		var train []byte
		for i := range n {
			p.Number = r.First + uint32(sent+i)
			train = p.append(train, r.Size)
		}
		if c.sendTrain(train, r.Size, to) != nil {
			break
		}
		sent += n
		time.Sleep(time.Millisecond)
	}
	return sent
}

func (c *conn) close() {
	for _, s := range []*net.UDPConn{c.uni, c.multi, c.publishes, c.subscribes} {
		if s != nil {
			s.Close()
		}
	}
}

func (c *conn) replyPort() uint16 { return uint16(c.publishes.LocalAddr().(*net.UDPAddr).Port) }

func (c *conn) publish(b []byte) { c.publishes.WriteToUDPAddrPort(b, c.group) }

func (c *conn) reply(b []byte, to netip.AddrPort) error {
	_, err := c.subscribes.WriteToUDPAddrPort(b, to)
	return err
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) }

type query struct {
	version int
	every   time.Duration // interval between queries; 0: not in the packet
}

// readQuery parses an IGMP packet. ok is false if it is not a general query (RFC 3376 §4.1, RFC 2236, RFC 1112).
func readQuery(b []byte) (q query, ok bool) {
	if len(b) < 8 || b[0] != 0x11 || b[4]|b[5]|b[6]|b[7] != 0 {
		return q, false
	}
	switch {
	case len(b) >= 12: // QQIC: seconds, or a floating-point number (RFC 3376 §4.1.7)
		seconds := int(b[9])
		if seconds >= 128 {
			seconds = (seconds&0xf | 0x10) << (seconds>>4&7 + 3)
		}
		return query{3, time.Duration(seconds) * time.Second}, true
	case b[1] == 0:
		return query{version: 1}, true
	}
	return query{version: 2}, true
}

// igmp records queries from its opening until close.
type igmp struct {
	conn  net.PacketConn // nil: queries cannot be received
	err   error          // the reason
	since time.Time
	done  chan struct{}

	mu   sync.Mutex
	last query  // guarded by mu
	from string // guarded by mu; empty: none received
}

func watchIGMP(cfg Config) *igmp {
	i := &igmp{since: time.Now(), done: make(chan struct{})}
	if i.conn, i.err = openIGMP(cfg); i.err != nil {
		close(i.done)
		return i
	}
	go func() {
		defer close(i.done)
		b := make([]byte, 2048)
		for {
			n, from, err := i.conn.ReadFrom(b)
			if isClosed(err) {
				return
			} else if err != nil {
				continue
			}
			// Queries of this host's own bridge count, too.
			if q, ok := readQuery(b[:n]); ok {
				i.mu.Lock()
				i.last, i.from = q, from.String()
				i.mu.Unlock()
			}
		}
	}()
	return i
}

func (i *igmp) fill(info *Info) {
	info.ReceivesIGMP, info.Listened = i.err == nil, time.Since(i.since).Round(time.Millisecond).Seconds()
	if i.err != nil {
		info.NoIGMPReason = "no raw socket"
		if errors.Is(i.err, os.ErrPermission) {
			info.NoIGMPReason = "no CAP_NET_RAW"
		}
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	info.Querier, info.QuerierEvery, info.IGMPVersion = i.from, i.last.every.Seconds(), i.last.version
}

func (i *igmp) close() {
	if i.err == nil {
		i.conn.Close()
	}
	<-i.done
}
