package cli

import (
	"slices"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// counts reports whether a packet counts at all: by its group and its publisher. What is no
// packet has no publisher.
func (f *tapFilter) counts(p *tap.Packet) bool {
	g, known := p.Group()
	if f.known && !known || f.groups != nil && (!known || !slices.Contains(f.groups, g.Index)) {
		return false
	}
	if !f.byPublisher {
		return true
	}
	_, h, err := wire.ParseKept(p.Data)
	return err == nil && h.Publisher == f.publisher
}

// shows reports whether a packet that counts, and was read, is written: by type and topic.
func (f *tapFilter) shows(p *tap.Packet) bool {
	if f.types == nil && !f.byTopic {
		return true
	}
	if p.Read.Err != nil || f.types != nil && !slices.Contains(f.types, p.Read.Type) {
		return false
	}
	return !f.byTopic || f.hasTopic(p)
}

func (f *tapFilter) hasTopic(p *tap.Packet) bool {
	switch p.Read.Type {
	case wire.TypeData:
		for r, rest, ok := wire.NextRun(p.Runs); ok; r, rest, ok = wire.NextRun(rest) {
			if r.Topic == f.topic {
				return true
			}
		}
	case wire.TypeAnnounce:
		a, _ := wire.ParseAnnounce(p.Data)
		for t, ok := a.Next(); ok; t, ok = a.Next() {
			if t.ID == f.topic {
				return true
			}
		}
	case wire.TypeStatus:
		s, _ := wire.ParseStatus(p.Data)
		for i := range s.Topics() {
			if s.Topic(i) == f.topic {
				return true
			}
		}
	case wire.TypeHello:
		h, _ := wire.ParseHello(p.Data)
		return h.Filter.May(f.topic)
	}
	return false
}
