package peer

import (
	"net"
	"net/netip"
	"strings"
	"time"
)

type Config struct {
	Interface   net.Interface
	Addr        netip.Addr     // of it, of IPv4
	Group       netip.AddrPort // multicast group and UDP port of both sides
	TTL         int            // of multicast
	Environment string         // what hinders multicast on this host; empty: nothing does
}

type Info struct {
	Host        string `json:"host"`
	Interface   string `json:"interface"`
	Group       string `json:"group,omitempty"` // where it meets others; empty: not said
	MTU         int    `json:"mtu"`
	GSO         bool   `json:"gso"` // the kernel cuts trains
	GRO         bool   `json:"gro"` // the kernel may merge them again
	Environment string `json:"environment,omitempty"`
	// Hears says that queries of IGMP would be heard; HearsNot why they would not.
	Hears        bool    `json:"hears_igmp"`
	HearsNot     string  `json:"hears_igmp_not,omitempty"`
	Querier      string  `json:"igmp_querier,omitempty"` // address of the last one heard
	QuerierEvery float64 `json:"igmp_query_seconds,omitempty"`
	IGMPVersion  int     `json:"igmp_version,omitempty"` // of the query
	Listened     float64 `json:"listened_seconds"`
}

// maxText bounds each text of Info, in bytes, so that all of it is less than a report.
const maxText = 48

// short is a text that came from elsewhere: what a terminal would obey is left out.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxText)]
}

// clean bounds what came from the other side.
func (i Info) clean() Info {
	for _, text := range []*string{&i.Host, &i.Interface, &i.Environment, &i.Group, &i.HearsNot, &i.Querier} {
		*text = short(*text)
	}
	return i
}

// probeEvery is the time between probes that go out one by one.
const probeEvery = 100 * time.Microsecond

// sendRow sends a row of probes, and returns how many the kernel took: of a size that is
// more than the interface's MTU it takes none.
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
	// A busy host sleeps longer than it should: the probes that are due go out together, as
	// many as a train has, so that a row ends before the asker gives up waiting for it.
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

// trainProbes is how many probes are in a train.
const trainProbes = 16

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

// publish sends to the group as a publisher does, from the socket that replies come to.
func (c *conn) publish(b []byte) { c.publishes.WriteToUDPAddrPort(b, c.group) }

// reply sends as a subscriber does.
func (c *conn) reply(b []byte, to netip.AddrPort) error {
	_, err := c.subscribes.WriteToUDPAddrPort(b, to)
	return err
}
