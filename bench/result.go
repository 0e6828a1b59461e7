package bench

import (
	"bytes"
	"encoding/json"
)

// Head is what every result begins with.
type Head struct {
	Scenario string
	Host     Host
	Settings Settings
}

func (b *Bench) head(scenario string) Head {
	return Head{Scenario: scenario, Host: ThisHost(), Settings: b.Settings}
}

func (h *Head) self() *Head { return h }

func (h *Head) fields() map[string]any {
	return map[string]any{"scenario": h.Scenario, "host": h.Host, "settings": h.Settings}
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
