package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Every shape of a load carries its messages, those of each topic in order and complete, along with
// one publisher on one topic.
func TestShapes(t *testing.T) {
	testenv.Slow(t)
	for name, shape := range map[string]func(*Settings){
		"round":         func(s *Settings) { s.Topics = 20 },
		"zipf":          func(s *Settings) { s.Topics, s.Order = 20, worker.OrderZipf },
		"bursts":        func(s *Settings) { s.Topics, s.Order = 20, worker.OrderBursts },
		"goroutines":    func(s *Settings) { s.Topics, s.Goroutines = 3, 3 },
		"publishers":    func(s *Settings) { s.Buses = 3 },
		"shares":        func(s *Settings) { s.Topics, s.Subs, s.Split = 8, 2, true },
		"subscriptions": func(s *Settings) { s.Extra = 20 },
		"all, read": func(s *Settings) {
			s.Topics, s.Goroutines, s.Buses, s.Extra, s.Receive = 5, 2, 2, 15, worker.ReceiveMessages
		},
		"batches":  func(s *Settings) { s.Topics, s.Goroutines, s.Receive = 5, 2, worker.ReceiveBatch },
		"loss":     func(s *Settings) { s.Topics, s.Loss = 5, 0.02 },
		"wildcard": func(s *Settings) { s.Topics, s.Wildcard = 5, true },
	} {
		b := newBench(t, "mem")
		b.Seconds, b.CheckAll = 0.05, true
		shape(&b.Settings)
		if err := b.Settings.Check("throughput", b.Contenders); err != nil {
			t.Errorf("%s: the settings are invalid: %v", name, err)
		}
		result, err := b.Run(t.Context(), "throughput")
		if err != nil {
			t.Errorf("%s: the run failed: %v", name, err)
			continue
		}
		m := decoded(t, result)
		for _, contestant := range []string{"ours", "one"} {
			for _, what := range []string{"msgs_per_s", "msgs_per_packet", "msgs_per_train"} {
				positive(t, m, contestant, what, "median")
			}
		}
		positive(t, m, "ratio_one")
		if b.Wildcard {
			positive(t, m, "wildcard", "msgs_per_s", "median")
			positive(t, m, "ratio_wildcard")
		}
		positive(t, m, "ours", "publisher_heap_bytes")
		var text strings.Builder
		if err := Write(&text, result, false); err != nil || !strings.Contains(text.String(), b.shapeText()) {
			t.Errorf("%s: report with error %v lacks %q: %s", name, err, b.shapeText(), text.String())
		}
	}
}

// The raw baseline separates the messages of many topics, like Fanfare.
func TestRawTopics(t *testing.T) {
	onLinux(t)
	b := newBench(t, "udp")
	b.Topics, b.Baselines = 40, []string{"raw"}
	result, err := b.Run(t.Context(), "throughput")
	if err != nil {
		t.Fatal(err)
	}
	positive(t, decoded(t, result), "raw", "msgs_per_s", "median")
	positive(t, decoded(t, result), "ratio_raw")
}

// With processes and single messages: latency with many topics and with one.
func TestTopicsOfProcesses(t *testing.T) {
	b := newBench(t, "udp")
	b.Topics, b.Subs, b.Split = 40, 2, true
	o, err := b.run(t.Context(), b.contestants()[0], worker.LoadFull)
	if err != nil {
		t.Fatal(err)
	}
	if o.due(0)+o.due(1) != o.pub.Messages || o.subs[0].Messages != o.due(0) || o.subs[1].Messages != o.due(1) {
		t.Errorf("%d and %d of %d messages received, want %d and %d", o.subs[0].Messages, o.subs[1].Messages, o.pub.Messages, o.due(0), o.due(1))
	}
	b = newBench(t, "mem")
	b.Topics, b.Rate, b.Seconds = 10, 2000, 0.2
	result, err := b.Run(t.Context(), "latency")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	positive(t, m, "ratio_p50_one")
	if n := result.Contest().Value(keyOurs, "messages"); n != 360 {
		t.Errorf("%v messages count, want all but the first tenth of 400", n)
	}
}

// A target without a baseline is a share of "one".
func TestTargetOfOne(t *testing.T) {
	s := Defaults("udp")
	s.Topics, s.Target = 8, 0.7
	if err := s.Check("throughput", contenders.All()); err != nil {
		t.Error(err)
	}
	r := &Result{Scenario: "throughput", Settings: s, Points: []Point{{Rows: []Row{newRow("", "ratio_one", asRatio, []float64{0.8})}}}}
	if v := r.Verdicts(); len(v) != 1 || !v[0].Met || v[0].Name != keyOne {
		t.Errorf("verdicts %v, want one, met, of %s", v, keyOne)
	}
	s.Baselines = []string{"nats"}
	r.Settings = s
	if v := r.Verdicts(); len(v) != 1 || v[0].Name != "nats" {
		t.Errorf("with a baseline: verdicts %v, want one of nats", v)
	}
}

// Matching totals do not hide that a topic has messages of another, or lacks some.
func TestTopicsAreCounted(t *testing.T) {
	o := &outcome{spec: worker.Spec{Contender: contenders.Fanfare, Shape: worker.Shape{Topics: 2}}, pub: &worker.Report{Messages: 10, Topics: []uint64{5, 5}}}
	for name, c := range map[string]struct {
		topics, lost []uint64
		wantText     string
	}{
		"equal":          {[]uint64{5, 5}, nil, ""},
		"told":           {[]uint64{5, 3}, []uint64{0, 2}, ""},
		"wrong topic":    {[]uint64{6, 4}, nil, "on topic 0 of 2 6 messages received"},
		"silent":         {[]uint64{5, 3}, []uint64{2, 0}, "on topic 0 of 2 5 messages received and 2 reported lost, of 5"},
		"without counts": {nil, nil, "counts of 0 topics"},
	} {
		s := &worker.Report{Topics: c.topics, TopicsLost: c.lost, Messages: 10}
		for _, n := range c.lost {
			s.Lost += n
			s.Messages -= n
		}
		o.subs = []*worker.Report{s}
		if err := o.check(); (err == nil) != (c.wantText == "") || err != nil && !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%s: check fails with %v, want %q", name, err, c.wantText)
		}
	}
}

func TestShapeText(t *testing.T) {
	s := Defaults("udp")
	if got := s.shapeText(); got != "" || s.Many() {
		t.Errorf("the simplest shape is %q, want none", got)
	}
}

// Raw on many topics is compared with raw on one: the share that the machine keeps without a protocol.
func TestRawOne(t *testing.T) {
	onLinux(t)
	b := newBench(t, "udp")
	b.Runs, b.Topics, b.Baselines = 1, 100, []string{contenders.Raw}
	result, err := longEnough(t, b)
	if err != nil {
		t.Fatal(err)
	}
	p := result.Contest()
	if keys := p.Keys(); !slices.Equal(keys, []string{keyOurs, keyOne, contenders.Raw, keyRawOne}) {
		t.Errorf("contestants are %v, want ours, one, raw and raw on one topic", keys)
	}
	if ratio, want := p.Ratio(keyRawOne).Value, p.Rate(contenders.Raw)/p.Rate(keyRawOne); ratio != want {
		t.Errorf("raw keeps %v, want %v", ratio, want)
	}
	if IsOurs(keyRawOne) || isFanfare(keyRawOne) {
		t.Error("raw on one topic counts as Fanfare")
	}
	all := Result{Parts: []*Result{result}}
	if got := all.baselineText("ratio_raw-one"); got != fmt.Sprintf("raw %.2f of raw-one", p.Ratio(keyRawOne).Value) {
		t.Errorf(`baseline text %q, want "raw %.2f of raw-one"`, got, p.Ratio(keyRawOne).Value)
	}
}
