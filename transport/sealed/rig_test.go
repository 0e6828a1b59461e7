package sealed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func name(size int) string { return fmt.Sprintf("%d bytes", size) }

// testSet returns a keyset of keys with these ids, and secrets derived from the ids.
func testSet(t testing.TB, ids ...KeyID) *Keyset {
	t.Helper()
	var list []Key
	for _, id := range ids {
		list = append(list, Key{ID: id, Secret: [32]byte{byte(id), byte(id >> 8), 7}})
	}
	s, err := NewKeyset(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testOpener returns an opener with the keys of a set at the current time.
func testOpener(t testing.TB, set *Keyset) *opener {
	t.Helper()
	cfg := Config{}.withDefaults()
	o := newOpener(&cfg)
	o.begin(set, time.Now(), 0)
	return o
}

// newPCG returns a source of random numbers with a seed that a failure prints.
func newPCG(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if v := os.Getenv("FANFARE_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("FANFARE_SEED=%d replays this", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
