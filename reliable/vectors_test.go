package reliable

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// docs/protocol §2.17, §3.8, §3.11: docs/vectors/hashes.json.
func TestHashVectors(t *testing.T) {
	var v struct {
		Topics []struct {
			Name       string   `json:"name"`
			ID         uint64   `json:"topic_id"`
			FilterBits []uint64 `json:"filter_bits"`
		} `json:"topics"`
		Collisions []struct {
			Names []string `json:"names"`
			ID    uint64   `json:"topic_id"`
		}
		UDP, UD []struct {
			Address string `json:"address"`
			Tag     uint32 `json:"group_tag"`
		}
	}
	testenv.Vectors(t, "hashes.json", &v)
	if len(v.Topics) == 0 || len(v.Collisions) == 0 || len(v.UDP) == 0 || len(v.UD) == 0 {
		t.Fatal("the vectors are incomplete")
	}
	for _, x := range v.Topics {
		if got := wire.TopicID(x.Name); got != x.ID {
			t.Errorf("id of topic %q: %d, want %d", x.Name, got, x.ID)
		}
		var got, want wire.TopicFilter
		got.Add(x.ID)
		for _, bit := range x.FilterBits {
			want[bit/8] |= 1 << (bit % 8)
		}
		if got != want || len(x.FilterBits) != 3 {
			t.Errorf("filter of topic %q: %x, want %x", x.Name, got, want)
		}
	}
	for _, x := range v.Collisions {
		if len(x.Names) != 2 || x.Names[0] == x.Names[1] {
			t.Fatalf("%q: want two different names", x.Names)
		}
		for _, name := range x.Names {
			if got, ok := pattern.NameOf(x.ID, []byte(name)); !ok || got != name {
				t.Errorf("the id of %q is not %d", name, x.ID)
			}
		}
	}
	for _, x := range append(v.UDP, v.UD...) {
		if got := wire.GroupTag(x.Address); got != x.Tag {
			t.Errorf("tag of %s: %d, want %d", x.Address, got, x.Tag)
		}
	}
}
