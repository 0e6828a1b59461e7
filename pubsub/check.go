package pubsub

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// Bounds of Config, beyond which arithmetic with it would end, or nothing would work.
const (
	mostRate    = 1 << 50 // bytes a second
	mostShare   = 10
	leastWindow = 64 << 10 // bytes
	mostWindow  = 1 << 30
	mostMemory  = 1 << 40
	mostHeard   = 1 << 16 // publishers
	mostTime    = 24 * time.Hour
	mostFlush   = time.Second
	mostBehind  = 1 << 30 // packets
)

// check says what is wrong with a configuration, after setDefaults: which field, its value, and what it must be.
func (c *Config) check() error {
	for _, f := range []struct {
		name  string
		value any
		ok    bool
		must  string
	}{
		{"Name", c.Name, len(c.Name) <= wire.MaxName && wire.CleanName([]byte(c.Name)) == c.Name,
			fmt.Sprintf("at most %d bytes of text that prints, without white space", wire.MaxName)},
		{"Tag", c.Tag, c.Tag == "" || isTag(c.Tag), fmt.Sprintf("at most %d bytes of text that prints, without white space and commas", wire.MaxTag)},
		{"Clock", c.Clock, isClock(c.Clock), clockForm},
		{"FlowControl", c.FlowControl, c.FlowControl.strategy() != nil, flowForms},
		{"Pad", c.Pad, within(c.Pad, 0, wire.MaxPacket), fmt.Sprintf("from 1, which is none, to %d bytes, or 0 for the default", wire.MaxPacket)},
		{"Rate", c.Rate, within(c.Rate, 0, mostRate), fmt.Sprintf("from 0, which is no limit, to %d bytes/s", int64(mostRate))},
		{"RepairShare", c.RepairShare, within(c.RepairShare, math.SmallestNonzeroFloat64, mostShare), fmt.Sprintf("above 0, or 0 for the default, and at most %d", mostShare)},
		{"StateShare", c.StateShare, within(c.StateShare, math.SmallestNonzeroFloat64, mostShare), fmt.Sprintf("above 0, or 0 for the default, and at most %d", mostShare)},
		{"Silence", c.Silence, within(c.Silence, 1, mostTime), upTo(mostTime)},
		{"StallLimit", c.StallLimit, c.StallLimit <= mostTime, fmt.Sprintf("at most %v, 0 for the default, or negative for no limit", mostTime)},
		{"SlowBehind", c.SlowBehind, within(int64(c.SlowBehind), 0, mostBehind), fmt.Sprintf("from 0, which is no limit, to %d packets", mostBehind)},
		{"SlowFor", c.SlowFor, within(c.SlowFor, 1, mostTime), upTo(mostTime)},
		{"WindowBytes", c.WindowBytes, within(c.WindowBytes, leastWindow, mostWindow), bytesFrom(leastWindow, mostWindow)},
		{"PublishMemoryBytes", c.PublishMemoryBytes, within(int64(c.PublishMemoryBytes), int64(c.WindowBytes), mostMemory),
			bytesFrom(int64(c.WindowBytes), mostMemory) + ": a window of WindowBytes must fit"},
		{"FlushAfter", c.FlushAfter, within(c.FlushAfter, 1, mostFlush), upTo(mostFlush)},
		{"Wait", c.Wait, c.Wait == WaitAdaptive || c.Wait == WaitPark || c.Wait == WaitSpin, fmt.Sprintf("%q, %q or %q", WaitAdaptive, WaitPark, WaitSpin)},
		{"Inspect", c.Inspect, c.Inspect == InspectAuto || c.Inspect == InspectOn || c.Inspect == InspectOff, fmt.Sprintf("%q, %q or %q", InspectAuto, InspectOn, InspectOff)},
		{"Linger", c.Linger, c.Linger <= mostTime, fmt.Sprintf("at most %v, 0 for the default, or negative not to linger", mostTime)},
		{"RecoveryDeadline", c.RecoveryDeadline, within(c.RecoveryDeadline, 1, mostTime), upTo(mostTime)},
		{"ReceiveWindowBytes", c.ReceiveWindowBytes, within(c.ReceiveWindowBytes, leastWindow, mostWindow), bytesFrom(leastWindow, mostWindow)},
		{"ReceiveMemoryBytes", c.ReceiveMemoryBytes, within(int64(c.ReceiveMemoryBytes), int64(c.ReceiveWindowBytes), mostMemory),
			bytesFrom(int64(c.ReceiveWindowBytes), mostMemory) + ": a window of ReceiveWindowBytes must fit"},
		{"MaxPublishers", c.MaxPublishers, within(c.MaxPublishers, 1, mostHeard), fmt.Sprintf("from 1 to %d, or 0 for the default", mostHeard)},
		{"MaxMessage", c.MaxMessage, within(c.MaxMessage, 1, wire.MaxMessage), bytesFrom(1, wire.MaxMessage)},
	} {
		if !f.ok {
			value := fmt.Sprint(f.value)
			if text, ok := f.value.(string); ok {
				value = strconv.Quote(text)
			}
			return &ConfigError{Field: f.name, Value: value, Must: f.must}
		}
	}
	if err := c.checkPacks(); err != nil {
		return err
	}
	if _, err := faulty.Parse(c.Faults); err != nil {
		return fmt.Errorf("pubsub: Config.Faults is %q: %w", c.Faults, err)
	}
	return nil
}

// isTag reports whether text may be a subscriber's tag.
func isTag(text string) bool {
	return text != "" && len(text) <= wire.MaxTag && !strings.Contains(text, ",") && wire.CleanName([]byte(text)) == text
}

// within reports whether v is, which NaN is not.
func within[T ~int | ~int64 | ~float64](v, least, most T) bool { return v >= least && v <= most }

func upTo(most time.Duration) string {
	return fmt.Sprintf("a time of at most %v, or 0 for the default", most)
}

func bytesFrom(least, most int64) string {
	return fmt.Sprintf("from %d to %d bytes, or 0 for the default", least, most)
}
