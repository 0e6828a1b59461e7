package bench

import (
	"fmt"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// sharedSteps are the aims over shared memory.
func sharedSteps() []aimsStep {
	shared := func(change func(*Settings), baselines ...string) func(*Settings) {
		return func(s *Settings) {
			s.Transport, s.URL, s.MTU, s.Baselines = "shm", "", Defaults("shm").MTU, baselines
			change(s)
		}
	}
	late := func(wait worker.Wait, name string, most float64) aimsStep {
		return aimsStep{"latency", shared(func(s *Settings) { s.Wait = wait }, contenders.Ring), func(j *judge, p *Point) {
			j.most(name, p.Value(keyOurs, "p50_us"), most, "µs", fmt.Sprintf("ring %.3g µs", p.Value(contenders.Ring, "p50_us")))
		}}
	}
	var one float64 // messages a second to one handler
	return []aimsStep{
		{"throughput", shared(func(s *Settings) { s.Batch = aimedBatch }, contenders.Ring, contenders.UDP, contenders.Raw), func(j *judge, p *Point) {
			one = p.Rate(keyOurs)
			j.least("shared memory, of a ring", p.Ratio(contenders.Ring).Value, 0.6, "", Short(one)+perS+", ring "+Short(p.Rate(contenders.Ring))+perS)
			j.least("shared memory in batches, of a ring", p.Ratio(keyBatches+"_"+contenders.Ring).Value, 0.6, "", Short(p.Rate(keyBatches))+perS)
			j.least("shared memory, of UDP", p.Ratio(keyUDPFrames).Value, 2, "", Short(p.Rate(keyUDPFrames))+perS)
			j.least("shared memory, of UDP in packets as large", p.Ratio(contenders.UDP).Value, 2, "", Short(p.Rate(contenders.UDP))+perS)
			j.least("shared memory, of raw over UDP", p.Ratio(contenders.Raw).Value, ofRaw, "", p.rawText())
			j.most("shared memory, sleeps a message", p.Value(keyOurs, "sleeps_per_msg"), 0.01, "", "of all threads; TestSystemCalls counts all system calls")
		}},
		{"throughput", shared(func(s *Settings) { s.Receive = worker.ReceiveMessages }), func(j *judge, p *Point) {
			j.least("shared memory, ranged over (Messages), of a handler", ratio(p.Rate(keyOurs), one), 0.5, "", Short(p.Rate(keyOurs))+perS)
		}},
		{"throughput", shared(func(s *Settings) { s.Subs, s.Alone = 4, true }, contenders.Ring), func(j *judge, p *Point) {
			j.least("shared memory, each of four subscribers, of one", p.Ratio(keyAlone).Value, 0.6, "", "one "+Short(p.Rate(keyAlone))+perS+", ring "+Short(p.Rate(contenders.Ring))+perS)
		}},
		{"throughput", shared(func(s *Settings) { s.Size = 1024 }, contenders.Ring), func(j *judge, p *Point) {
			j.least("shared memory, 1 KiB, payload", p.Value(keyOurs, "bytes_per_s"), 12e9, "B/s", "ring "+Short(p.Value(contenders.Ring, "bytes_per_s"))+"B/s")
		}},
		late(worker.WaitSpin, "shared memory, spinning, p50", 0.5),
		late(worker.WaitPark, "shared memory, parking, p50", 10),
	}
}
