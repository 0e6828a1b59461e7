package faulty

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config has the faults of received packets. The zero value has none.
type Config struct {
	// Loss is the share of packets that are dropped, 0 to 1.
	Loss float64
	// Duplicate is the share of packets that arrive twice, 0 to 1. The second immediately follows the first, unless it is
	// reordered or delayed itself.
	Duplicate float64
	// Reorder is the share of packets that are overtaken by 1 to reorderDepth of the following ones, 0 to 1.
	Reorder float64
	// Burst is the mean length of runs of lost packets; the share lost remains Loss. With 0 and 1 each packet is lost
	// independently of the others. It must be at least Loss/(1-Loss), because gaps between runs have at least one packet.
	Burst float64
	// Delay delays every packet, and Jitter adds a random time from 0 to Jitter, uniformly distributed. Jitter alone
	// reorders packets that are closer to each other than Jitter.
	Delay, Jitter time.Duration
	// Seed of all random choices. The same seed and the same packets in the same order give the same faults.
	Seed uint64
	// Clock is the time since any fixed moment; default: the monotonic clock.
	Clock func() time.Duration
}

const (
	// maxDelay bounds Delay and Jitter: more is a mistyped unit.
	maxDelay = time.Minute
	// reorderDepth is the maximum number of packets that overtake one.
	reorderDepth = 16
	// reorderHold bounds how long a packet waits to be overtaken, so that without traffic it is not held forever.
	reorderHold = 500 * time.Microsecond
	// holdPackets is the maximum number of packets held at a time, in memory of 64 KiB each, touched only when used.
	// Beyond it packets are passed on immediately.
	holdPackets = 4096
)

// keys are the faults in the text form, in the order in which String writes them.
var keys = []struct {
	name string
	num  func(*Config) *float64
	dur  func(*Config) *time.Duration
}{
	{name: "loss", num: func(c *Config) *float64 { return &c.Loss }},
	{name: "dup", num: func(c *Config) *float64 { return &c.Duplicate }},
	{name: "reorder", num: func(c *Config) *float64 { return &c.Reorder }},
	{name: "burst", num: func(c *Config) *float64 { return &c.Burst }},
	{name: "delay", dur: func(c *Config) *time.Duration { return &c.Delay }},
	{name: "jitter", dur: func(c *Config) *time.Duration { return &c.Jitter }},
}

// Parse parses the output of String:
//
//	loss=0.05,dup=0.02,reorder=0.05,burst=8,delay=1ms,jitter=200us,seed=7
//
// in any order, each at most once. The empty text is no faults.
func Parse(text string) (Config, error) {
	var c Config
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	seen := make(map[string]bool)
	for _, field := range strings.Split(text, ",") {
		name, val, ok := strings.Cut(strings.TrimSpace(field), "=")
		if !ok {
			return c, fmt.Errorf("faults: %q is not of the form name=value", field)
		}
		if seen[name] {
			return c, fmt.Errorf("faults: %s is given twice", name)
		}
		seen[name] = true
		if err := c.set(name, val); err != nil {
			return c, err
		}
	}
	return c, c.Validate()
}

func (c *Config) set(name, val string) error {
	if name == "seed" {
		n, err := strconv.ParseUint(val, 10, 64)
		if err != nil {
			return fmt.Errorf("faults: seed=%s is not a number from 0 to 2^64-1", val)
		}
		c.Seed = n
		return nil
	}
	for _, k := range keys {
		if k.name != name {
			continue
		}
		if k.num != nil {
			x, err := strconv.ParseFloat(val, 64)
			if err != nil {
				return fmt.Errorf("faults: %s=%s is not a number", name, val)
			}
			*k.num(c) = x
			return nil
		}
		d, err := time.ParseDuration(val)
		if err != nil {
			return fmt.Errorf("faults: %s=%s is not a time such as 1ms or 200us", name, val)
		}
		*k.dur(c) = d
		return nil
	}
	return fmt.Errorf("faults: %q is unknown; known are loss, dup, reorder, burst, delay, jitter and seed", name)
}

// String writes the faults in the form that Parse reads, without those that are zero.
func (c Config) String() string {
	var b strings.Builder
	add := func(name, val string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + "=" + val)
	}
	for _, k := range keys {
		if k.num != nil {
			if x := *k.num(&c); x != 0 {
				add(k.name, strconv.FormatFloat(x, 'g', -1, 64))
			}
		} else if d := *k.dur(&c); d != 0 {
			add(k.name, d.String())
		}
	}
	if c.Seed != 0 {
		add("seed", strconv.FormatUint(c.Seed, 10))
	}
	return b.String()
}

// Validate returns an error if the configuration is invalid.
func (c Config) Validate() error {
	for _, k := range keys {
		if k.dur != nil {
			if d := *k.dur(&c); d < 0 || d > maxDelay {
				return fmt.Errorf("faults: %s=%v is outside 0 to %v", k.name, d, maxDelay)
			}
			continue
		}
		low, high := 0.0, 1.0
		if k.name == "burst" {
			high = 1e6
		}
		if x := *k.num(&c); !(x >= low && x <= high) { // false for NaN too
			return fmt.Errorf("faults: %s=%v is outside %v to %v", k.name, x, low, high)
		}
	}
	if c.Burst > 0 && c.Burst < 1 {
		return fmt.Errorf("faults: burst=%v: a run of losses is at least 1 long", c.Burst)
	}
	if c.Burst > 1 && c.Loss == 1 {
		return fmt.Errorf("faults: loss=1 leaves no gap between the runs of burst=%v: leave burst out", c.Burst)
	}
	if c.Burst > 1 && c.enterBurst() > 1 {
		return fmt.Errorf("faults: loss=%v cannot come in runs of mean %v: use burst=%.4g or more",
			c.Loss, c.Burst, c.Loss/(1-c.Loss))
	}
	return nil
}

// enterBurst is the probability that a run of losses follows a packet that arrived. With runs of mean Burst and gaps of
// mean 1/enterBurst, the share lost is Burst/(Burst+1/enterBurst) = Loss.
func (c Config) enterBurst() float64 {
	if c.Loss == 0 {
		return 0
	}
	return c.Loss / (c.Burst * (1 - c.Loss))
}

// active reports whether there is any fault.
func (c Config) active() bool {
	return c.Loss > 0 || c.Duplicate > 0 || c.Reorder > 0 || c.Delay > 0 || c.Jitter > 0
}
