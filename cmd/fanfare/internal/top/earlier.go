package top

import (
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// What was there in the observation before.

// busKey is what a bus keeps as long as it lives.
type busKey struct {
	pid   int
	id    string
	epoch uint64
	since int64
}

func keyOf(s *inspect.Snapshot, b *inspect.Bus) busKey {
	return busKey{s.Process.PID, b.ID, b.Epoch, b.Since.UnixNano()}
}

func busesOf(o Observation) map[busKey]*inspect.Bus {
	all := make(map[busKey]*inspect.Bus)
	for _, x := range o.Seen {
		if x.Snapshot == nil {
			continue
		}
		for i := range x.Snapshot.Buses {
			b := &x.Snapshot.Buses[i]
			all[keyOf(x.Snapshot, b)] = b
		}
	}
	return all
}

// byKey are the elements of a list, of which there may be thousands.
func byKey[T any, K comparable](list []T, key func(*T) K) map[K]*T {
	all := make(map[K]*T, len(list))
	for i := range list {
		if k := key(&list[i]); all[k] == nil {
			all[k] = &list[i]
		}
	}
	return all
}

// find returns the element of list for which is is true, or a zero one.
func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return new(T)
}
