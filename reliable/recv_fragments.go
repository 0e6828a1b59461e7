package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// fragment adds a fragment; it reports true, with the message in it, or the gap
// in its place if it is too long or not complete, when that was the last one.
// docs/protocol.md §10.2.
func (r *Reader) fragment(t *Track, run wire.Run, it *Item) bool {
	f, err := wire.ParseFragment(run.Body)
	if err != nil {
		r.drop()
		return false
	}
	r.unused = 0
	last := f.Offset+len(f.Bytes) == f.Total
	switch {
	case f.Total > r.max:
		r.expect, r.broken = 0, CauseTooLarge
	case f.Offset == 0:
		r.partial, r.expect, r.pTrack, r.pNumber, r.broken = r.partial[:0], f.Total, t, run.Number, CauseNone
	case r.expect == 0 && r.broken != CauseNone: // its beginning is lost
	case r.expect == 0 || r.pTrack != t || r.pNumber != run.Number || f.Total != r.expect || f.Offset != len(r.partial):
		r.expect, r.broken = 0, CauseMisnumbered
		r.fault(FaultFragments, t)
	}
	if r.expect == 0 {
		if last {
			// Told with the last fragment: no later message may ever come, and
			// a total that was told in between does not count this one.
			*it = Item{Topic: t, Number: run.Number, Lost: 1, Cause: r.broken}
			t.next = run.Number + 1
		}
		return last
	}
	r.partial = append(r.partial, f.Bytes...)
	if len(r.partial) < f.Total {
		return false
	}
	r.expect = 0
	*it = Item{Topic: t, Number: run.Number, Data: r.partial}
	t.next = run.Number + 1
	return true
}

// A reader gives the memory for fragments back, if it is more than keptPartial bytes,
// when unusedPackets in a row had none: of a single large message nothing stays.
const (
	keptPartial   = 1 << 20
	unusedPackets = 256
)
