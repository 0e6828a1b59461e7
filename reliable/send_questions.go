package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// asks processes the question of a heartbeat. If statuses name all topics they answer it anyway, unless they are lost.
// A pattern may want a topic without a known name. docs/protocol §7.10.
func (p *reportState) asks(st *Stream, now Instant, flags wire.Flags, hb *wire.Heartbeat) {
	if hb.Asked == 0 {
		return
	}
	anew := p.asked != hb.Asked
	p.asked = hb.Asked // even if it is answered: later, statuses may not be able to name all wanted topics
	namesAll := st.r.names.to == nil && len(st.r.topics) <= wire.MaxTaggedTopics
	if flags&wire.FlagSolicit == 0 && (namesAll || !anew) {
		return
	}
	p.topics = true
	p.solicited(st.r.cfg.Rand, max(now, p.changeAt), hb)
}

// namedTopics returns the topics that statuses name, first the topic asked for if it is wanted.
func (st *Stream) namedTopics() []uint64 {
	id, topics, to := st.report.asked, st.r.topics, st.r.named[:0]
	if id == 0 {
		return topics
	}
	if _, ok := st.r.wanted(id); !ok {
		return topics
	}
	to = append(to, id)
	for _, t := range topics {
		if len(to) == cap(to) {
			break
		}
		if t != id {
			to = append(to, t)
		}
	}
	return to
}
