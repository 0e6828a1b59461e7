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

// Bounds of Config: beyond them arithmetic would overflow, or nothing would work.
const (
	maxRate       = 1 << 50 // bytes a second
	maxShare      = 10
	minWindow     = 64 << 10 // bytes
	maxWindow     = 1 << 30
	maxMemory     = 1 << 40
	maxPublishers = 1 << 16 // publishers
	maxTime       = 24 * time.Hour
	maxFlush      = time.Second
	maxBehind     = 1 << 30 // packets
)

// check returns a *ConfigError for the first invalid field. setDefaults must have run.
func (c *Config) check() error {
	for _, f := range []struct {
		name  string
		value any
		ok    bool
		must  string
	}{
		{"Name", c.Name, len(c.Name) <= wire.MaxName && wire.CleanName([]byte(c.Name)) == c.Name,
			fmt.Sprintf("at most %d bytes of printable text, without white space", wire.MaxName)},
		{"Tag", c.Tag, c.Tag == "" || isTag(c.Tag), fmt.Sprintf("at most %d bytes of printable text, without white space and commas", wire.MaxTag)},
		{"Clock", c.Clock, isClock(c.Clock), clockForm},
		{"FlowControl", c.FlowControl, c.FlowControl.strategy() != nil, flowForms},
		{"Pad", c.Pad, within(c.Pad, 0, wire.MaxPacket), fmt.Sprintf("from 1, which is none, to %d bytes, or 0 for the default", wire.MaxPacket)},
		{"Rate", c.Rate, within(c.Rate, 0, maxRate), fmt.Sprintf("from 0, which is no limit, to %d bytes/s", int64(maxRate))},
		{"RepairShare", c.RepairShare, within(c.RepairShare, math.SmallestNonzeroFloat64, maxShare), fmt.Sprintf("above 0, or 0 for the default, and at most %d", maxShare)},
		{"StateShare", c.StateShare, within(c.StateShare, math.SmallestNonzeroFloat64, maxShare), fmt.Sprintf("above 0, or 0 for the default, and at most %d", maxShare)},
		{"Silence", c.Silence, within(c.Silence, 1, maxTime), upTo(maxTime)},
		{"StallLimit", c.StallLimit, c.StallLimit <= maxTime, fmt.Sprintf("at most %v, 0 for the default, or negative for no limit", maxTime)},
		{"SlowBehind", c.SlowBehind, within(int64(c.SlowBehind), 0, maxBehind), fmt.Sprintf("from 0, which is no limit, to %d packets", maxBehind)},
		{"SlowFor", c.SlowFor, within(c.SlowFor, 1, maxTime), upTo(maxTime)},
		{"WindowBytes", c.WindowBytes, within(c.WindowBytes, minWindow, maxWindow), bytesFrom(minWindow, maxWindow)},
		{"PublishMemoryBytes", c.PublishMemoryBytes, within(int64(c.PublishMemoryBytes), int64(c.WindowBytes), maxMemory),
			bytesFrom(int64(c.WindowBytes), maxMemory) + ": a window of WindowBytes must fit"},
		{"FlushAfter", c.FlushAfter, within(c.FlushAfter, 1, maxFlush), upTo(maxFlush)},
		{"Wait", c.Wait, c.Wait == WaitAdaptive || c.Wait == WaitPark || c.Wait == WaitSpin, fmt.Sprintf("%q, %q or %q", WaitAdaptive, WaitPark, WaitSpin)},
		{"Inspect", c.Inspect, c.Inspect == InspectAuto || c.Inspect == InspectOn || c.Inspect == InspectOff, fmt.Sprintf("%q, %q or %q", InspectAuto, InspectOn, InspectOff)},
		{"Linger", c.Linger, c.Linger <= maxTime, fmt.Sprintf("at most %v, 0 for the default, or negative not to linger", maxTime)},
		{"RecoveryDeadline", c.RecoveryDeadline, within(c.RecoveryDeadline, 1, maxTime), upTo(maxTime)},
		{"ReceiveWindowBytes", c.ReceiveWindowBytes, within(c.ReceiveWindowBytes, minWindow, maxWindow), bytesFrom(minWindow, maxWindow)},
		{"ReceiveMemoryBytes", c.ReceiveMemoryBytes, within(int64(c.ReceiveMemoryBytes), int64(c.ReceiveWindowBytes), maxMemory),
			bytesFrom(int64(c.ReceiveWindowBytes), maxMemory) + ": a window of ReceiveWindowBytes must fit"},
		{"MaxPublishers", c.MaxPublishers, within(c.MaxPublishers, 1, maxPublishers), fmt.Sprintf("from 1 to %d, or 0 for the default", maxPublishers)},
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

// within reports whether v is from min to max. NaN is not.
func within[T ~int | ~int64 | ~float64](v, min, max T) bool { return v >= min && v <= max }

func upTo(max time.Duration) string {
	return fmt.Sprintf("a time of at most %v, or 0 for the default", max)
}

func bytesFrom(min, max int64) string {
	return fmt.Sprintf("from %d to %d bytes, or 0 for the default", min, max)
}
