package faulty_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/faulty"
)

func TestParse(t *testing.T) {
	for _, text := range []string{
		"", "loss=0.05,dup=0.02,reorder=0.05,burst=8,seed=7",
		"loss=0.05,dup=0.02,reorder=0.05,burst=8,delay=1ms,seed=7",
		"loss=1", "delay=1.5ms,jitter=200µs", "seed=18446744073709551615",
	} {
		cfg, err := faulty.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
		} else if got := cfg.String(); got != text {
			t.Errorf("Parse(%q).String() = %q, want the same text", text, got)
		}
	}
	cfg, err := faulty.Parse("loss=0.05,dup=0.02,reorder=0.03,burst=8,delay=1ms,jitter=2us,seed=7")
	want := faulty.Config{Loss: 0.05, Duplicate: 0.02, Reorder: 0.03, Burst: 8, Delay: time.Millisecond, Jitter: 2 * time.Microsecond, Seed: 7}
	if err != nil || fmt.Sprint(cfg) != fmt.Sprint(want) || cfg.Delay != want.Delay {
		t.Errorf("Parse: config %+v, error %v, want %+v", cfg, err, want)
	}
	for text, hint := range map[string]string{
		"los=0.1":           "known are loss",
		"loss":              "name=value",
		"loss=x":            "not a number",
		"loss=1.1":          "outside 0 to 1",
		"loss=-0.1":         "outside 0 to 1",
		"loss=NaN":          "outside 0 to 1",
		"dup=2":             "dup=2",
		"reorder=5%":        "not a number",
		"burst=0.5":         "at least 1",
		"burst=1e9":         "burst",
		"loss=0.9,burst=2":  "burst=9",
		"loss=1,burst=2":    "leave burst out",
		"delay=5":           "such as 1ms",
		"delay=-1ms":        "outside",
		"jitter=1h":         "outside",
		"seed=-1":           "seed",
		"loss=0.1,loss=0.2": "twice",
		"loss=0.1,,dup=0.1": "name=value",
		"loss=0.1;dup=0.1":  "not a number",
	} {
		if _, err := faulty.Parse(text); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q): error %v, want one with %q", text, err, hint)
		}
	}
}

func TestNewPanicsOnBadConfig(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	faulty.New(nil, faulty.Config{Loss: 2})
}
