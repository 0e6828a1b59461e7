package pubsub

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// docs/protocol §3.12: docs/vectors/hashes.json.
func TestHashVectors(t *testing.T) {
	var v struct {
		Publishers []struct {
			Name string `json:"name"`
			ID   uint64 `json:"publisher_id"`
		} `json:"publishers"`
	}
	testenv.Vectors(t, "hashes.json", &v)
	if len(v.Publishers) == 0 {
		t.Fatal("something is missing")
	}
	for _, x := range v.Publishers {
		bus, err := Config{Name: x.Name}.Open(t.Context(), "mem://"+t.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got := uint64(bus.ID()); got != x.ID {
			t.Errorf("id of publisher %q: %d, want %d", x.Name, got, x.ID)
		}
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	}
}
