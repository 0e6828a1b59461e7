package cli

import (
	"fmt"
	"io"
	"sync"

	"github.com/fanfaremq/fanfare/rdma"
)

// mckeyReport writes what happens, for people or as JSON. Connections call it
// from goroutines of their own.
type mckeyReport struct {
	m     *mckey
	mu    sync.Mutex // guards what follows
	w     io.Writer
	lines *jsonLines
	sides []*mckeySide
}

// mckeyListed bounds the messages of a connection that are listed.
const mckeyListed = 20

func newMckeyReport(m *mckey, e *env) *mckeyReport {
	return &mckeyReport{m: m, w: e.stdout, lines: newJSONLines(e.stdout)}
}

// mckeyJoin is what RDMA CM's event says of a join (type "join").
type mckeyJoin struct {
	Type       string `json:"type"`
	Role       string `json:"role"`
	Connection int    `json:"connection"`
	Device     string `json:"device"`
	Port       uint8  `json:"port"`
	LinkLayer  string `json:"link_layer"`
	LocalQPN   string `json:"local_qpn"`
	Member     string `json:"member"`
	DGID       string `json:"dgid"`
	MLID       string `json:"mlid"`
	QPN        string `json:"qpn"`
	QKey       string `json:"qkey"`
	SL         uint8  `json:"sl"`
	SGIDIndex  int    `json:"sgid_index"`
	HopLimit   uint8  `json:"hop_limit"`
}

// mckeyMessage is a received message (type "message").
type mckeyMessage struct {
	Type       string `json:"type"`
	Role       string `json:"role"` // the receiver's
	Connection int    `json:"connection"`
	Number     uint64 `json:"number"` // from 1
	Bytes      int    `json:"bytes"`
	Immediate  string `json:"immediate,omitempty"`
	SourceQPN  string `json:"source_qpn"`
	SourceGID  string `json:"source_gid,omitempty"`
	// AsExpected says that it has the length of -S and its sender's QPN as
	// immediate.
	AsExpected bool `json:"as_expected"`
}

// mckeySummary is the result (type "summary"). Counts are sums over all
// connections.
type mckeySummary struct {
	Type     string `json:"type"`
	Role     string `json:"role"` // of this process
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Expected uint64 `json:"expected"` // to receive
	Strange  uint64 `json:"strange"`
	Complete bool   `json:"complete"`
	Error    string `json:"error,omitempty"`
}

func (r *mckeyReport) joined(c *mckeyConn) error {
	member := rdma.JoinFullMember
	if c.side.role == roleSender && r.m.sendOnly {
		member = rdma.JoinSendOnlyFullMember
	}
	ah := &c.ud.AHAttr
	j := mckeyJoin{
		Type: "join", Role: c.side.role, Connection: c.index,
		Device: c.dev.Name(), Port: c.id.Port(), LinkLayer: c.local.LinkLayer.String(), LocalQPN: c.qp.QPN().String(), Member: member.String(),
		DGID: ah.GRH.DGID.String(), MLID: ah.DLID.String(), QPN: c.ud.QPN.String(), QKey: c.ud.QKey.String(),
		SL: ah.SL, SGIDIndex: ah.GRH.SGIDIndex, HopLimit: ah.GRH.HopLimit,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.index == 0 {
		r.sides = append(r.sides, c.side)
	}
	return r.write(&j, "%s: joined as %s with QPN %s on %s port %d (%s)\n%s: joined dgid: %s mlid %s sl %d, qpn %s, qkey %s, sgid_index %d, hop_limit %d\n",
		r.name(c), j.Member, j.LocalQPN, j.Device, j.Port, j.LinkLayer,
		r.name(c), j.DGID, j.MLID, j.SL, j.QPN, j.QKey, j.SGIDIndex, j.HopLimit)
}

// name is how a connection is called.
func (r *mckeyReport) name(c *mckeyConn) string {
	if r.m.connections == 1 {
		return c.side.role
	}
	return fmt.Sprintf("%s %d", c.side.role, c.index)
}

func (r *mckeyReport) message(c *mckeyConn, m *mckeyMessage) error {
	if c.messages > mckeyListed {
		return nil
	}
	m.Number, m.Role = c.messages, c.side.role
	r.mu.Lock()
	defer r.mu.Unlock()
	immediate, note := m.Immediate, ""
	if immediate == "" {
		immediate = "none"
	}
	if !m.AsExpected {
		note = " (not as expected)"
	}
	return r.write(m, "%s: message %d: %d bytes, immediate %s, from QPN %s, GID %s%s\n", r.name(c), m.Number, m.Bytes, immediate, m.SourceQPN, m.SourceGID, note)
}

// write writes one form or the other. The caller holds mu.
func (r *mckeyReport) write(v any, format string, args ...any) error {
	switch {
	case r.m.json:
		return r.lines.write(v)
	case r.m.quiet:
		return nil
	}
	_, err := fmt.Fprintf(r.w, format, args...)
	return err
}

// received is how many messages all receivers have.
func (r *mckeyReport) received() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, side := range r.sides {
		for _, c := range side.conns {
			if side.role == roleReceiver {
				n += c.messages
			}
		}
	}
	return n
}

// summarize writes the result, err being why it ended early.
func (r *mckeyReport) summarize(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := mckeySummary{Type: "summary", Role: r.m.role(), Complete: err == nil}
	if err != nil {
		s.Error = err.Error()
	}
	text := ""
	for _, side := range r.sides {
		var n uint64
		for _, c := range side.conns {
			n += c.messages
			s.Strange += c.strange
			if side.role == roleReceiver {
				s.Expected += side.expect
			}
		}
		if side.role == roleSender {
			s.Sent = n
			text += fmt.Sprintf("sender: %s of %d bytes sent\n", count(n, "message"), r.m.size)
		} else {
			s.Received = n
			text += fmt.Sprintf("receiver: %d of %s received\n", n, count(s.Expected, "message"))
		}
	}
	return r.write(&s, "%s", text)
}
