package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Aim is a figure that Fanfare is to reach.
type Aim struct {
	Name    string  `json:"name"`
	Command string  `json:"command"` // that measures it alone
	Seen    float64 `json:"seen"`
	Want    float64 `json:"want"`
	Most    bool    `json:"most"` // Want is the most it may be, and not the least
	Unit    string  `json:"unit,omitempty"`
	Met     bool    `json:"met"`
	// Beside is what a baseline did in the same run, which says what the machine can do.
	Beside string `json:"beside,omitempty"`
}

// aimsStep is a scenario and what it is judged by. Those before it are known.
type aimsStep struct {
	scenario string
	settings func(*Settings)
	judge    func(j *judge, p *Point)
}

// judge collects aims, and what later steps compare with.
type judge struct {
	aims    []Aim
	command string  // of the step
	ours    float64 // messages a second
	ownCode float64 // of the publisher, s for a million messages
	rawCode float64
	full    float64 // payload of messages that just fit a packet, bytes a second
	shared  float64 // messages a second to one handler over shared memory
}

func (j *judge) least(name string, seen, want float64, unit, beside string) {
	j.aims = append(j.aims, Aim{Name: name, Command: j.command, Seen: seen, Want: want, Unit: unit, Met: seen >= want, Beside: beside})
}

func (j *judge) most(name string, seen, want float64, unit, beside string) {
	j.aims = append(j.aims, Aim{Name: name, Command: j.command, Seen: seen, Want: want, Most: true, Unit: unit, Met: seen <= want, Beside: beside})
}

const (
	mebibyte = 1 << 20
	percent  = "% of a core"
	// ofRaw is 80 M messages/s where the raw loop over UDP moves 92 M.
	ofRaw = 80.0 / 92
	perS  = "/s"
	// aimedBatch is how many messages a call a publisher in batches has: as many as a packet of 1472 bytes holds, or a few less.
	aimedBatch = 16
	// manyRuns are those of steps with many topics, publishers or subscriptions: there are many.
	manyRuns = 3
)

// aims measures all that Fanfare aims at (docs/performance.md), over UDP, shared memory and in
// process, and judges it.
func (b *Bench) aims(ctx context.Context, r *Result) error {
	steps := b.aimsSteps()
	j := judge{aims: []Aim{}}
	r.Aims = j.aims
	for i, step := range steps {
		one := *b
		one.MTU, one.Size, one.Subs = Defaults("udp").MTU, 64, 1
		one.Baselines = []string{contenders.Raw}
		step.settings(&one.Settings)
		one.Progress = func(what string) { b.say("step %d of %d: %s", i+1, len(steps), what) }
		part, err := one.Run(ctx, step.scenario)
		if part != nil {
			r.Parts = append(r.Parts, part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.scenario, err)
		}
		j.command = one.command(step.scenario)
		step.judge(&j, part.Contest())
		r.Aims = j.aims
	}
	return nil
}

// throughputStep and latencyStep are steps beside these baselines.
func throughputStep(baselines []string, set func(*Settings), judge func(j *judge, p *Point)) aimsStep {
	return aimsStep{"throughput", func(s *Settings) { s.Baselines = baselines; set(s) }, judge}
}

func latencyStep(baselines []string, set func(*Settings), judge func(j *judge, p *Point)) aimsStep {
	return aimsStep{"latency", func(s *Settings) { s.Baselines = baselines; set(s) }, judge}
}

func (b *Bench) aimsSteps() []aimsStep {
	raw := []string{contenders.Raw}
	loss := func(share, want float64) aimsStep {
		return throughputStep(nil, func(s *Settings) { s.Loss = share }, func(j *judge, p *Point) {
			j.least(fmt.Sprintf("%g %% loss, of lossless", 100*share), p.Ratio("lossless").Value, want, "", p.rateText(keyOurs))
		})
	}
	steps := []aimsStep{
		throughputStep([]string{contenders.Raw, contenders.Naive}, func(s *Settings) { s.Batch = aimedBatch }, func(j *judge, p *Point) {
			j.ours, j.ownCode, j.rawCode = p.Rate(keyOurs), p.Value(keyOurs, "publisher_user_s_per_mmsg"), p.Value("raw", "publisher_user_s_per_mmsg")
			j.least("64 bytes, of raw", p.Ratio("raw").Value, 0.7, "", p.rawText())
			j.least("64 bytes in batches, of raw", p.Ratio(keyBatches+"_raw").Value, 0.7, "", p.rateText(keyBatches))
			j.least("64 bytes", j.ours, 55e6, perS, p.rawText())
			j.least("64 bytes, of naive", p.Ratio("naive").Value, 200, "", fmt.Sprintf("raw %.0f", ratio(p.Rate("raw"), p.Rate("naive"))))
			j.most("allocations a message", p.Value(keyOurs, "allocs_per_msg"), 0, "", "")
			j.most("publisher's memory", p.Value(keyOurs, "publisher_rss_bytes")/mebibyte, 64, "MiB", "")
			j.most("subscriber's memory", p.Value(keyOurs, "subscriber_rss_bytes")/mebibyte, 64, "MiB", "")
		}),
		throughputStep(raw, func(s *Settings) { s.Size = 1024 }, func(j *judge, p *Point) {
			j.least("1 KiB, payload, of raw", p.Ratio("raw").Value, 0.95, "", p.bytesText(keyOurs)+", raw "+p.bytesText("raw"))
		}),
		throughputStep(raw, func(s *Settings) { s.MTU = contenders.MaxDatagram }, func(j *judge, p *Point) {
			j.least("64 KiB datagrams, of the figure at 1472", ratio(p.Rate(keyOurs), j.ours), 0.9, "", "")
		}),
		throughputStep(nil, func(s *Settings) { s.Receive = worker.ReceiveMessages }, func(j *judge, p *Point) {
			j.least("64 bytes ranged over (Messages), of a handler", ratio(p.Rate(keyOurs), j.ours), 0.5, "", p.rateText(keyOurs))
		}),
		throughputStep(raw, func(s *Settings) { s.Subs = 4 }, func(j *judge, p *Point) {
			j.least("four subscribers, each, of raw", p.Ratio("raw").Value, 0.65, "", p.rateText(keyOurs)+", "+p.rawText())
		}),
		throughputStep(raw, func(s *Settings) { s.Subs = 16 }, func(j *judge, p *Point) {
			j.most("the publisher's own code, 16 subscribers for one", ratio(p.Value(keyOurs, "publisher_user_s_per_mmsg"), j.ownCode), 1.1, "",
				fmt.Sprintf("raw %.2f", ratio(p.Value("raw", "publisher_user_s_per_mmsg"), j.rawCode)))
		}),
		throughputStep(nil, func(s *Settings) { s.Metrics, s.Top, s.Seconds = "localhost:0", true, max(s.Seconds, 1) }, func(j *judge, p *Point) {
			j.least("with metrics, of without", p.Ratio(keyMetrics).Value, 0.98, "", "")
			j.least("with metrics and top, of without", p.Ratio(keyTop).Value, 0.98, "", "")
		}),
		latencyStep(raw, func(s *Settings) { s.Wait = worker.WaitPark }, func(j *judge, p *Point) {
			j.most("parking, p50 by raw", p.Ratio("p50_raw").Value, 1.3, "", p.lateText("raw", "p50"))
			j.most("parking, p99 by raw", p.Ratio("p99_raw").Value, 2, "", p.lateText("raw", "p99"))
		}),
		latencyStep(raw, func(s *Settings) { s.Wait = worker.WaitSpin }, func(j *judge, p *Point) {
			j.most("spinning, p50 by raw", p.Ratio("p50_raw").Value, 1.5, "", p.lateText("raw", "p50"))
		}),
		latencyStep(raw, func(s *Settings) { s.Loss = 0.01 }, func(j *judge, p *Point) {
			j.most("latency at 1 % loss, p99", p.Value(keyOurs, "p99_us"), 300, "µs", p.lateText("lossless", "p99")+", "+p.lateText("raw", "p99"))
			j.most("latency at 1 % loss, p99.9 by lossless", p.Ratio("p999_lossless").Value, 3, "", "")
		}),
		loss(0.01, 0.8), loss(0.1, 0.4), loss(0.3, 0.01),
		throughputStep([]string{contenders.Channel, contenders.Raw}, func(s *Settings) {
			s.Transport, s.URL, s.MTU, s.Receive, s.Batch = "mem", "", Defaults("mem").MTU, worker.ReceiveBatch, aimedBatch
		}, func(j *judge, p *Point) {
			j.least("in process, of raw over UDP", p.Ratio("raw").Value, ofRaw, "", p.rateText(keyOurs)+", "+p.rawText())
			j.least("in process in batches, of raw over UDP", p.Ratio(keyBatches+"_raw").Value, ofRaw, "", p.rateText(keyBatches))
			j.least("in process, of a channel", p.Ratio("channel").Value, 3, "", "channel "+p.rateText("channel"))
		}),
		{"idle", func(s *Settings) { s.Baselines = nil }, func(j *judge, p *Point) {
			j.most("idle publisher", p.Value("", "publisher_cpu_percent"), 0.5, percent, "")
			j.most("idle subscriber", p.Value("", "subscriber_cpu_percent"), 0.5, percent, "")
		}},
	}
	return append(slices.Concat(steps, protectedSteps(), largeSteps(), manySteps(), sharedSteps()),
		throughputStep(nil, func(s *Settings) { s.Runs, s.Seconds = 1, 10 }, func(j *judge, p *Point) {
			j.most("longest GC pause in 10 s", p.Value(keyOurs, "gc_pause_max_us"), 1000, "µs", fmt.Sprintf("%.0f cycles", p.Value(keyOurs, "gc_cycles")))
		}))
}

// protectedSteps are the aims for packets that are sealed or signed.
func protectedSteps() []aimsStep {
	p50 := func(name, key string, most float64, set func(*Settings)) aimsStep {
		return latencyStep(nil, set, func(j *judge, p *Point) {
			with, without := p.Value(key, "p50_us"), p.Value(keyOurs, "p50_us")
			j.most(name, with-without, most, "µs", fmt.Sprintf("%.3g µs, without %.3g", with, without))
		})
	}
	return []aimsStep{
		throughputStep(nil, func(s *Settings) { s.Sealed = true }, func(j *judge, p *Point) {
			j.least("64 bytes with keys, of without", p.Ratio(keySealed).Value, 0.45, "", p.rateText(keySealed))
		}),
		throughputStep(nil, func(s *Settings) { s.Sealed, s.Size = true, 1024 }, func(j *judge, p *Point) {
			j.least("1 KiB with keys, of without", p.Ratio(keySealed).Value, 0.45, "", p.bytesText(keySealed))
		}),
		throughputStep(nil, func(s *Settings) { s.Sealed, s.Loss = true, 0.01 }, func(j *judge, p *Point) {
			plain, sealed := p.Ratio("lossless").Value, p.Ratio(keySealedLossless).Value
			j.least("1 % loss with keys: kept, of what is kept without", ratio(sealed, plain), 0.95, "", fmt.Sprintf("kept %.2f, without keys %.2f", sealed, plain))
		}),
		p50("p50 with keys, beyond without", keySealed, 3, func(s *Settings) { s.Sealed = true }),
		throughputStep(nil, func(s *Settings) { s.Signed = true }, func(j *judge, p *Point) {
			j.least("64 bytes, signed", p.Rate(keySigned), 8e6, perS, "not signed "+p.rateText(keyOurs))
		}),
		p50("p50 signed, beyond without", keySigned, 150, func(s *Settings) { s.Signed = true }),
	}
}

// largeSteps are the aims for messages above what one packet holds, by what is moved of
// messages that just fit one.
func largeSteps() []aimsStep {
	above := func(n int) aimsStep {
		return throughputStep(nil, func(s *Settings) { s.Size = n }, func(j *judge, p *Point) {
			j.least(fmt.Sprintf("%d bytes, payload, of 1400 bytes", n), ratio(p.Value(keyOurs, "bytes_per_s"), j.full), 0.6, "", p.bytesText(keyOurs))
		})
	}
	return []aimsStep{throughputStep(nil, func(s *Settings) { s.Size = 1400 }, func(j *judge, p *Point) { j.full = p.Value(keyOurs, "bytes_per_s") }), above(1408), above(2000)}
}

// manySteps are the aims of a publisher on many topics, and of many publishers and
// subscriptions: a share of what one of each does in the same run.
func manySteps() []aimsStep {
	const shareOfTopics, shareOfPublishers, shareOfSubscriptions = 0.7, 0.6, 0.9
	fewer := func(set func(*Settings)) func(*Settings) {
		return func(s *Settings) { s.Runs = min(s.Runs, manyRuns); set(s) }
	}
	step := func(name string, want float64, set func(*Settings)) aimsStep {
		return throughputStep(nil, fewer(set), func(j *judge, p *Point) { j.least(name, p.Ratio(keyOne).Value, want, "", p.besideOne()) })
	}
	// Beside raw on as many topics, and on one: what of its rate the machine keeps without any protocol.
	topics := func(name string, n int, order worker.Order, more func(j *judge, p *Point)) aimsStep {
		return throughputStep([]string{contenders.Raw}, fewer(func(s *Settings) { s.Topics, s.Order = n, order }), func(j *judge, p *Point) {
			j.least(name, p.Ratio(keyOne).Value, shareOfTopics, "", p.besideOne()+p.rawKeeps())
			if more != nil {
				more(j, p)
			}
		})
	}
	return []aimsStep{
		topics("16 topics in turn, of one", 16, worker.OrderRound, nil),
		topics("1,000 topics in turn, of one", 1000, worker.OrderRound, func(j *judge, p *Point) {
			own := p.Details[keyOurs].Publisher
			groups := fmt.Sprintf("%.0f groups, %.3g MiB of packet memory", own["groups"], own["memory_bytes"]/mebibyte)
			j.least("1,000 topics in turn", p.Rate(keyOurs), 10e6, perS, "one "+p.rateText(keyOne))
			j.most("publisher's memory, many groups", p.Value(keyOurs, "publisher_rss_bytes")/mebibyte, 64, "MiB", groups)
			j.most("publisher's heap, many groups", p.Value(keyOurs, "publisher_heap_bytes")/mebibyte, 64, "MiB", groups)
		}),
		topics("10,000 topics in turn, of one", 10_000, worker.OrderRound, nil),
		topics("1,000 topics by Zipf's law, of one", 1000, worker.OrderZipf, nil),
		topics("1,000 topics in bursts of 10 to 100, of one", 1000, worker.OrderBursts, nil),
		throughputStep(nil, fewer(func(s *Settings) { s.Topics, s.Wildcard = 1000, true }), func(j *judge, p *Point) {
			j.least("1,000 topics by a pattern, of by name", p.Ratio(keyWildcard).Value, 0.9, "", p.rateText(keyWildcard))
		}),
		step("1,000 topics from four goroutines, of one", shareOfTopics, func(s *Settings) { s.Topics, s.Goroutines = 1000, 4 }),
		step("1,000 topics to four subscribers by quarters, of one to four", shareOfTopics, func(s *Settings) { s.Topics, s.Subs, s.Split = 1000, 4, true }),
		step("8 publishers, of one", shareOfPublishers, func(s *Settings) { s.Buses = 8 }),
		step("32 publishers, of one", shareOfPublishers, func(s *Settings) { s.Buses = 32 }),
		step("64 publishers, of one", shareOfPublishers, func(s *Settings) { s.Buses = 64 }),
		step("10,000 subscriptions, of ten", shareOfSubscriptions, func(s *Settings) { s.Extra = 10_000 }),
		latencyStep(nil, fewer(func(s *Settings) { s.Topics = 1000 }), func(j *judge, p *Point) {
			j.most("1,000 topics, p50 by one", p.Ratio("p50_"+keyOne).Value, 1.3, "", fmt.Sprintf("%.3g µs, one %.3g", p.Value(keyOurs, "p50_us"), p.Value(keyOne, "p50_us")))
		}),
	}
}

// sharedSteps are the aims over shared memory.
func sharedSteps() []aimsStep {
	ring := []string{contenders.Ring}
	shared := func(set func(*Settings)) func(*Settings) {
		return func(s *Settings) { s.Transport, s.URL, s.MTU = "shm", "", Defaults("shm").MTU; set(s) }
	}
	late := func(wait worker.Wait, name string, most float64) aimsStep {
		return latencyStep(ring, shared(func(s *Settings) { s.Wait = wait }), func(j *judge, p *Point) {
			j.most(name, p.Value(keyOurs, "p50_us"), most, "µs", p.lateText(contenders.Ring, "p50"))
		})
	}
	return []aimsStep{
		throughputStep([]string{contenders.Ring, contenders.UDP, contenders.Raw}, shared(func(s *Settings) { s.Batch = aimedBatch }), func(j *judge, p *Point) {
			j.shared = p.Rate(keyOurs)
			j.least("shared memory, of a ring", p.Ratio(contenders.Ring).Value, 0.6, "", p.rateText(keyOurs)+", ring "+p.rateText(contenders.Ring))
			j.least("shared memory in batches, of a ring", p.Ratio(keyBatches+"_"+contenders.Ring).Value, 0.6, "", p.rateText(keyBatches))
			j.least("shared memory, of UDP", p.Ratio(keyUDPFrames).Value, 2, "", p.rateText(keyUDPFrames))
			j.least("shared memory, of UDP in packets as large", p.Ratio(contenders.UDP).Value, 2, "", p.rateText(contenders.UDP))
			j.least("shared memory, of raw over UDP", p.Ratio(contenders.Raw).Value, ofRaw, "", p.rawText())
			j.most("shared memory, sleeps a message", p.Value(keyOurs, "sleeps_per_msg"), 0.01, "", "of all threads; TestSystemCalls counts all system calls")
		}),
		throughputStep(nil, shared(func(s *Settings) { s.Receive = worker.ReceiveMessages }), func(j *judge, p *Point) {
			j.least("shared memory, ranged over (Messages), of a handler", ratio(p.Rate(keyOurs), j.shared), 0.5, "", p.rateText(keyOurs))
		}),
		throughputStep(ring, shared(func(s *Settings) { s.Subs, s.Alone = 4, true }), func(j *judge, p *Point) {
			j.least("shared memory, each of four subscribers, of one", p.Ratio(keyAlone).Value, 0.6, "", "one "+p.rateText(keyAlone)+", ring "+p.rateText(contenders.Ring))
		}),
		throughputStep(ring, shared(func(s *Settings) { s.Size = 1024 }), func(j *judge, p *Point) {
			j.least("shared memory, 1 KiB, payload", p.Value(keyOurs, "bytes_per_s"), 12e9, "B/s", "ring "+p.bytesText(contenders.Ring))
		}),
		late(worker.WaitSpin, "shared memory, spinning, p50", 0.5),
		late(worker.WaitPark, "shared memory, parking, p50", 10),
	}
}

func ratio(a, b float64) float64 { return a / max(b, 1e-12) }

func (p *Point) rateText(key string) string  { return Short(p.Rate(key)) + perS }
func (p *Point) bytesText(key string) string { return Short(p.Value(key, "bytes_per_s")) + "B/s" }
func (p *Point) lateText(key, q string) string {
	return fmt.Sprintf("%s %.3g µs", key, p.Value(key, q+"_us"))
}

// rawText is raw's rate, and what it lost.
func (p *Point) rawText() string {
	text := "raw " + p.rateText("raw")
	if lost := p.Value("raw", "lost_share"); lost >= 0.005 {
		text += fmt.Sprintf(", %.0f %% lost", 100*lost)
	}
	return text
}

// rawKeeps says what raw keeps on many topics of what it moves on one.
func (p *Point) rawKeeps() string {
	return fmt.Sprintf("; raw keeps %.2f of its own", p.Ratio(keyRawOne).Value)
}

// besideOne is the rates behind the ratio to one topic and publisher.
func (p *Point) besideOne() string {
	return fmt.Sprintf("%s, one %s; %s messages a packet, %s a train", p.rateText(keyOurs), p.rateText(keyOne),
		mean(p.Row(keyOurs, "msgs_per_packet")), mean(p.Row(keyOurs, "msgs_per_train")))
}

// Wanted is the figure that is aimed at.
func (a *Aim) Wanted() string {
	if a.Most {
		return "at most " + a.figure(a.Want)
	}
	return "at least " + a.figure(a.Want)
}

// Figure is the figure that was seen.
func (a *Aim) Figure() string { return a.figure(a.Seen) }

func (a *Aim) figure(x float64) string {
	switch a.Unit {
	case "":
		return Short(x)
	case perS, "B/s":
		return Short(x) + a.Unit
	}
	return Short(x) + " " + a.Unit
}

// Verdict is PASS or MISSED.
func (a *Aim) Verdict() string {
	if a.Met {
		return "PASS"
	}
	return "MISSED"
}

// Missed are the aims that are.
func (r *Result) Missed() []Aim {
	return slices.DeleteFunc(slices.Clone(r.Aims), func(a Aim) bool { return a.Met })
}
