package slow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the simplest Conflation, without limits.
type model struct {
	items    []modelItem
	replaced uint64
}

type modelItem struct {
	key  string
	v    int
	data []byte
	mark bool
}

func (m *model) put(key, data []byte, v int) {
	i := slices.IndexFunc(m.items, func(x modelItem) bool { return !x.mark && x.key == string(key) })
	if i >= 0 {
		m.items[i].v, m.items[i].data = v, bytes.Clone(data)
		m.replaced++
		return
	}
	m.items = append(m.items, modelItem{key: string(key), v: v, data: bytes.Clone(data)})
}

// For any sequence of put, mark, take and drop the results equal the model's, within the limits; a taken entry
// is valid until it is returned.
func TestConflationAgainstModel(t *testing.T) {
	for range 200 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		limits := Limits{Keys: 1 + rng.IntN(40), Bytes: 1 + rng.IntN(20_000)}
		c := NewConflation[int](limits)
		if rng.IntN(3) == 0 { // all keys in one hash chain
			c.hash = func([]byte) uint64 { return 7 }
		}
		var m model
		var held []modelItem
		var heldData [][]byte
		maximum := 0
		check := func(ok bool, format string, args ...any) {
			t.Helper()
			if !ok {
				t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, args...))
			}
		}
		for v := range 3000 {
			switch x := rng.IntN(20); {
			case x < 12:
				key, data := make([]byte, rng.IntN(3)), make([]byte, rng.IntN(1000))
				for i := range key {
					key[i] = byte(rng.IntN(6))
				}
				for i := range data {
					data[i] = byte(v)
				}
				if c.Put(key, data, v) {
					m.put(key, data, v)
				} else {
					check(len(m.items) > 0, "refused while no entry waits")
				}
			case x < 13:
				if c.Mark(v) {
					m.items = append(m.items, modelItem{v: v, mark: true})
				} else {
					check(len(m.items) >= limits.Keys, "a mark is refused, %d wait of %d", len(m.items), limits.Keys)
				}
			case x < 18:
				check(c.NextIsMark() == (len(m.items) > 0 && m.items[0].mark), "the next is a mark: %v", c.NextIsMark())
				got, data, ok := c.Take()
				check(ok == (len(m.items) > 0), "Take reports %v, %d wait", ok, len(m.items))
				if ok {
					want := m.items[0]
					m.items = m.items[1:]
					check(got == want.v && bytes.Equal(data, want.data), "took %d of %d bytes, want %d of %d", got, len(data), want.v, len(want.data))
					held, heldData = append(held, want), append(heldData, data)
				}
			case x < 19:
				for i := range held {
					check(bytes.Equal(heldData[i], held[i].data), "a taken entry has changed before Return")
				}
				held, heldData = nil, nil
				c.Return()
			default:
				drop := rng.IntN(8)
				c.Drop(func(v *int) bool { return *v%8 == drop })
				m.items = slices.DeleteFunc(m.items, func(x modelItem) bool { return x.v%8 == drop })
			}
			check(c.Waiting() == len(m.items) && c.Waiting() <= limits.Keys, "%d wait, want %d of %d", c.Waiting(), len(m.items), limits.Keys)
			check(c.Replaced() == m.replaced, "%d replaced, want %d", c.Replaced(), m.replaced)
			maximum = max(maximum, c.Bytes())
			sum := 0
			for i := range c.entries {
				sum += cap(c.entries[i].key) + cap(c.entries[i].data)
			}
			check(sum == c.Bytes(), "the buffers have %d bytes, counted are %d", sum, c.Bytes())
		}
		// A taken entry that is not returned yet may exceed the limit, and so may a single message.
		check(maximum <= limits.Bytes+1100*40, "%d bytes of %d", maximum, limits.Bytes)
		if t.Failed() {
			return
		}
	}
}

// 10,000 keys with a thousand messages for each one that is read: memory stays constant, and at the end each key has
// its last value.
func TestConflationOfManyKeys(t *testing.T) {
	const keys, messages = 10_000, 500_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := NewConflation[uint64](Limits{Keys: keys, Bytes: keys * 3 * roundUp})
	last, seen := make([]uint64, keys), make([]uint64, keys)
	received := 0
	receive := func() bool {
		c.Return()
		v, data, ok := c.Take()
		if ok {
			received++
			seen[binary.LittleEndian.Uint32(data)] = v
		}
		return ok
	}
	var key, data [100]byte
	memory := 0
	for v := uint64(1); v <= messages; v++ {
		k := uint32(rng.IntN(keys))
		binary.LittleEndian.PutUint32(key[:], k)
		binary.LittleEndian.PutUint32(data[:], k)
		if !c.Put(key[:8], data[:4+rng.IntN(97)], v) {
			t.Fatalf("message %d is refused: %d wait in %d bytes", v, c.Waiting(), c.Bytes())
		}
		last[k] = v
		if v%1000 == 0 {
			receive()
		}
		if v == messages/2 {
			memory = c.Bytes()
		}
	}
	if c.Bytes() > memory+memory/100 {
		t.Errorf("%d bytes, %d at half time, want at most 1 %% more", c.Bytes(), memory)
	}
	for receive() {
	}
	for k := range last {
		if seen[k] != last[k] {
			t.Fatalf("key %d ends with %d, its last value is %d", k, seen[k], last[k])
		}
	}
	if uint64(received)+c.Replaced() != messages {
		t.Errorf("%d messages taken and %d replaced, want %d together", received, c.Replaced(), messages)
	}
}

// Keys that were used before need no allocation.
func TestConflationAllocatesNothing(t *testing.T) {
	c := NewConflation[int](Limits{Keys: 1000, Bytes: 1 << 20})
	data := make([]byte, 100)
	var key [8]byte
	n := 0
	one := func() {
		for range 100 {
			n++
			binary.LittleEndian.PutUint64(key[:], uint64(n%50))
			if !c.Put(key[:], data, n) {
				t.Fatal("no room")
			}
			if n%3 == 0 {
				c.Return()
				c.Take()
			}
		}
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(100, one); n >= 1 {
		t.Errorf("%v allocations a hundred messages, want fewer than 1", n)
	}
}

// After it ran out of room it is crowded until half of its limits are free, for keys and for bytes; taken entries count
// until they are returned.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
	}{{"keys", Limits{Keys: 10, Bytes: 1 << 20}}, {"bytes", Limits{Keys: 1000, Bytes: 10 * 2 * roundUp}}} {
		t.Run(c.name, func(t *testing.T) {
			x := NewConflation[int](c.limits)
			check := func(want bool, when string) {
				t.Helper()
				if got := x.Crowded(); got != want {
					t.Errorf("crowded %s: %v, want %v", when, got, want)
				}
			}
			for k := range byte(10) {
				if !x.Put([]byte{k}, []byte{k}, 0) {
					t.Fatalf("no room for key %d", k)
				}
			}
			check(false, "with enough room")
			if !x.Put([]byte{3}, []byte{4}, 0) {
				t.Fatal("a key that waits is not replaced")
			}
			check(false, "without a refusal")
			if x.Put([]byte{10}, nil, 0) && x.Put([]byte{10}, []byte{1}, 0) {
				t.Fatal("there is room for an eleventh")
			}
			check(true, "when an eleventh was refused")
			for range 4 {
				x.Take()
			}
			x.Return()
			check(true, "with less than half of it free")
			x.Take()
			x.Return()
			check(false, "with half of it free")
		})
	}
	x := NewConflation[int](Limits{Keys: 1, Bytes: 1})
	x.Mark(1)
	if x.Mark(2) || !x.Crowded() {
		t.Error("it is not crowded after it refused a mark")
	}
	x.Drop(func(*int) bool { return true })
	if x.Crowded() {
		t.Error("it is crowded without a refusal")
	}
}
