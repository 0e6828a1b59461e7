package peer

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) }

type query struct {
	version int
	every   time.Duration // between queries; 0: it does not say
}

// readQuery reads an IGMP packet. It reports false if it is no general query (RFC 3376
// §4.1, RFC 2236, RFC 1112).
func readQuery(b []byte) (q query, ok bool) {
	if len(b) < 8 || b[0] != 0x11 || b[4]|b[5]|b[6]|b[7] != 0 {
		return q, false
	}
	switch {
	case len(b) >= 12: // QQIC: seconds, or a floating point number (RFC 3376 §4.1.7)
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

// igmp hears queries from when it is opened until it is closed.
type igmp struct {
	conn  net.PacketConn // nil: none can be heard
	err   error          // why
	since time.Time
	done  chan struct{}

	mu   sync.Mutex
	last query  // by mu
	from string // by mu; empty: none was heard
}

func hearIGMP(cfg Config) *igmp {
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
			// That of this host's own bridge counts, too.
			if q, ok := readQuery(b[:n]); ok {
				i.mu.Lock()
				i.last, i.from = q, from.String()
				i.mu.Unlock()
			}
		}
	}()
	return i
}

func (i *igmp) tell(info *Info) {
	info.Hears, info.Listened = i.err == nil, time.Since(i.since).Round(time.Millisecond).Seconds()
	if i.err != nil {
		info.HearsNot = "no raw socket"
		if errors.Is(i.err, os.ErrPermission) {
			info.HearsNot = "no CAP_NET_RAW"
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
