package bench

import (
	"bytes"
	"encoding/json"
)

// Result is what a scenario gave: *Throughput, *Latency, *Sweep, *Idle or, of all of
// them, *Suite. It marshals to one JSON object.
type Result interface {
	self() *Head
	empty() bool // nothing was measured
}

// Head is what every result begins with.
type Head struct {
	Scenario string
	Host     Host
	Settings Settings
	// Incomplete is why the measurement ended early, and empty if it did not. What is in
	// the result was measured before, and may be of fewer runs than were asked for.
	Incomplete string
}

func (b *Bench) head(scenario string) Head {
	return Head{Scenario: scenario, Host: ThisHost(), Settings: b.Settings}
}

func (h *Head) self() *Head { return h }

func (h *Head) fields() map[string]any {
	m := map[string]any{"scenario": h.Scenario, "host": h.Host, "settings": h.Settings}
	if h.Incomplete != "" {
		m["incomplete"] = h.Incomplete
	}
	return m
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
