package bench

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/compress"
)

// keyCompressed is Fanfare with a publisher that compresses.
const keyCompressed = "compressed"

// packedVariant is measured beside keyOurs, which does not compress.
var packedVariant = variant{keyCompressed, (*Settings).packed, func(s *Settings, w *worker.Spec) {
	w.Packing = worker.Packing{Compress: s.Compress, Dictionary: s.Dictionary}
}}

// packed reports whether compression is measured.
func (s *Settings) packed() bool { return s.Compress != "" }

func (s *Settings) checkPacking() error {
	spec, err := compress.Parse(s.Compress)
	switch {
	case err != nil:
		return fmt.Errorf("-compress: %w", err)
	case !s.packed() && len(s.Dictionary) > 0:
		return errors.New("-dict goes with -compress")
	case !s.packed():
		return nil
	case s.Stopped > 0:
		return errors.New("-compress and -stopped are each measured beside the same without: give one")
	}
	var dict *compress.Dictionary
	if len(s.Dictionary) > 0 {
		if dict, err = compress.NewDictionary(s.Dictionary); err != nil {
			return fmt.Errorf("-dict: %w", err)
		}
		s.DictionaryName = dict.Name()
	}
	if _, err := compress.New(spec, dict); err != nil {
		return fmt.Errorf("-compress: %w", err)
	}
	return nil
}

// packedText describes the compression that is measured.
func (s *Settings) packedText() string {
	if s.DictionaryName == "" {
		return s.Compress
	}
	return s.Compress + " with dictionary " + s.DictionaryName
}

// packedMetrics are of what is compressed, and of the same that is not.
var packedMetrics = []metric{
	{"wire_bytes_per_msg", "wire-B/msg", asSpread, func(o *outcome) float64 { return by(o.pub.Figures["wire_bytes"], float64(o.pub.Messages)) }},
}

// packedColumns are those of a table with compression.
var packedColumns = join(rateColumns, []column{
	{"msgs/packet", false, func(p *Point, who string) string { return mean(p.Row(who, "msgs_per_packet")) }},
	{"wire bytes/msg", false, func(p *Point, who string) string { return mean(p.Row(who, "wire_bytes_per_msg")) }},
	sideTime("publisher CPU ns/msg", "publisher"), sideTime("subscribers", "subscriber"),
	figure("allocs/msg", "allocs_per_msg", "%.3g", 1),
}, lastColumns)
