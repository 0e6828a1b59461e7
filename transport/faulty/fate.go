package faulty

import (
	"math/rand/v2"
	"time"
)

// fates decides at random which faults packets get. Each fault has its own generator, so that turning one on or off
// does not change which packets have the others.
type fates struct {
	cfg                     Config
	loss, dup, order, delay *rand.Rand
	inBurst                 bool
}

func newFates(cfg Config) fates {
	gen := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(cfg.Seed, n)) }
	return fates{cfg: cfg, loss: gen(1), dup: gen(2), order: gen(3), delay: gen(4)}
}

// lost decides whether the next packet is lost. With bursts it uses Gilbert's model of two states: in the bad state all
// packets are lost, in the good one none; after each packet the bad state ends with probability 1/Burst, so that it
// lasts Burst packets in the mean.
func (f *fates) lost() bool {
	if f.cfg.Loss == 0 {
		return false
	}
	if f.cfg.Burst <= 1 {
		return f.loss.Float64() < f.cfg.Loss
	}
	lost := f.inBurst
	if lost {
		f.inBurst = f.loss.Float64() >= 1/f.cfg.Burst
	} else {
		f.inBurst = f.loss.Float64() < f.cfg.enterBurst()
	}
	return lost
}

func (f *fates) duplicated() bool {
	return f.cfg.Duplicate > 0 && f.dup.Float64() < f.cfg.Duplicate
}

// overtaken decides by how many packets the next one is overtaken, mostly 0.
func (f *fates) overtaken() int {
	if f.cfg.Reorder == 0 || f.order.Float64() >= f.cfg.Reorder {
		return 0
	}
	return 1 + f.order.IntN(reorderDepth)
}

func (f *fates) delayed() time.Duration {
	if f.cfg.Jitter == 0 {
		return f.cfg.Delay
	}
	return f.cfg.Delay + time.Duration(f.delay.Int64N(int64(f.cfg.Jitter)+1))
}
