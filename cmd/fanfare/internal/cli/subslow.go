package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// slowWord is what -slow takes.
type slowWord string

const (
	slowAuto   slowWord = "auto"
	slowBlock  slowWord = "block"
	slowGap    slowWord = "gap"
	slowLatest slowWord = "latest"
	slowEvict  slowWord = "evict"
	// slowConflate is Conflate, with each topic as one key.
	slowConflate slowWord = "conflate"
)

// slowOptions are those of -slow and -behind.
func (s *sub) slowOptions() []pubsub.SubscribeOption {
	if s.slow == slowConflate {
		return []pubsub.SubscribeOption{pubsub.Conflate(nil)}
	}
	options := []pubsub.SubscribeOption{pubsub.SlowConsumer(map[slowWord]pubsub.SlowPolicy{
		slowAuto: pubsub.SlowAuto, slowBlock: pubsub.SlowBlock, slowGap: pubsub.SlowGap, slowLatest: pubsub.SlowLatest, slowEvict: pubsub.SlowEvict,
	}[s.slow])}
	if s.behind > 0 {
		options = append(options, pubsub.MaxBehind(int(s.behind)))
	}
	return options
}

// replaced is how many messages -slow conflate has left out for newer ones.
func (s *sub) replaced() uint64 {
	if s.s == nil {
		return 0
	}
	return s.s.Stats().Replaced
}

// jsonEvicted is how far behind a sub was that was evicted.
type jsonEvicted struct {
	Publisher string  `json:"publisher"`
	Epoch     uint64  `json:"epoch"`
	Group     string  `json:"group"`
	Behind    uint64  `json:"behind_packets"`
	Allowed   uint64  `json:"allowed_packets"`
	Seconds   float64 `json:"seconds"`
}

// evicted is err for the summary, if it is that the subscription was evicted.
func evicted(err error) *jsonEvicted {
	var e *pubsub.EvictedError
	if !errors.As(err, &e) {
		return nil
	}
	return &jsonEvicted{e.Publisher.String(), e.Epoch, e.Group, e.Behind, e.Allowed, e.For.Seconds()}
}

// evictedText is why -slow evict ended sub, in the words of the command line.
func evictedText(e *jsonEvicted) error {
	return fmt.Errorf("-slow evict: %s behind publisher %s, %d allowed, and behind for %s: take what it writes faster, or allow more with -behind",
		count(e.Behind, "packet"), e.Publisher, e.Allowed, short(time.Duration(e.Seconds*float64(time.Second))))
}
