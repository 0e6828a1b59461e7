package reliable

import (
	"math"
	"time"
)

// tokenBucket limits a rate in bytes. Rate 0: no limit.
type tokenBucket struct {
	rate   float64 // bytes a second
	burst  float64 // bytes
	tokens float64
	at     Instant
}

func (b *tokenBucket) init(rate, burst float64, now Instant) {
	*b = tokenBucket{rate: rate, burst: burst, tokens: burst, at: now}
}

func (b *tokenBucket) refill(now Instant) {
	if now > b.at {
		b.tokens = min(b.burst, b.tokens+b.rate*now.Sub(b.at).Seconds())
		b.at = now
	}
}

// take takes size bytes if they are available.
func (b *tokenBucket) take(now Instant, size int) bool { return b.takeAbove(now, size, 0) }

// takeAbove takes size bytes if keep bytes remain afterwards.
func (b *tokenBucket) takeAbove(now Instant, size, keep int) bool {
	if b.rate == 0 {
		return true
	}
	if b.tokens < float64(size+keep) {
		b.refill(now)
		if b.tokens < float64(size+keep) {
			return false
		}
	}
	b.tokens -= float64(size)
	return true
}

// takeRow takes the bytes for packets with sizes lens, from the first on, as far as available. It returns for how many.
func (b *tokenBucket) takeRow(now Instant, lens []uint16) int {
	if b.rate == 0 {
		return len(lens)
	}
	for i, size := range lens {
		if !b.take(now, int(size)) {
			return i
		}
	}
	return len(lens)
}

// correct returns bytes that were taken; a negative number takes more, even if unavailable.
func (b *tokenBucket) correct(bytes int) {
	if b.rate > 0 {
		b.tokens += float64(bytes)
	}
}

// due is when size bytes will be available.
func (b *tokenBucket) due(size int) Instant {
	if b.rate == 0 || b.tokens >= float64(size) {
		return b.at
	}
	wait := (float64(size) - b.tokens) / b.rate
	return b.at.Add(time.Duration(wait*float64(time.Second)) + 1)
}

// RateShare is a budget of bytes: a share of the rate limit, or of the recent data rate.
type RateShare struct {
	s      *Sender
	share  float64
	bucket tokenBucket
}

// NewRateShare returns a budget, which is full.
func (s *Sender) NewRateShare(now Instant, share float64) *RateShare {
	x := &RateShare{s: s, share: share}
	x.bucket.init(1, 0, now)
	x.refill(now)
	x.bucket.tokens = x.bucket.burst
	return x
}

// Take takes size bytes if they are available.
func (x *RateShare) Take(now Instant, size int) bool {
	x.refill(now)
	return x.bucket.take(now, size)
}

// Due is when size bytes will be available.
func (x *RateShare) Due(size int) Instant { return x.bucket.due(size) }

// refill updates the budget.
func (x *RateShare) refill(now Instant) {
	b := &x.bucket
	b.refill(now)
	if rate := x.s.cfg.Rate; rate > 0 {
		b.rate = max(1, x.share*float64(rate))
	} else {
		b.rate = max(stateFloor, x.share*x.s.repairs.peak.rate)
	}
	b.burst = max(float64(4*x.s.cfg.PacketSize), b.rate*stateBurst.Seconds())
}

// peakRate is the recent peak of the data rate, in bytes a second. docs/protocol §6.14.
type peakRate struct {
	rate  float64
	bytes float64 // sent since at
	at    Instant
}

// rateWindow is the time over which the data rate is measured, rateHalf the half-life of the peak.
const (
	rateWindow = 2 * time.Millisecond
	rateHalf   = 500 * time.Millisecond
)

// sent records bytes sent, and reports whether the peak was updated.
func (p *peakRate) sent(now Instant, bytes int) bool {
	p.bytes += float64(bytes)
	d := now.Sub(p.at)
	if d < rateWindow {
		return false
	}
	p.rate = max(p.bytes/d.Seconds(), p.rate*math.Exp2(-float64(d)/float64(rateHalf)))
	p.bytes, p.at = 0, now
	return true
}
