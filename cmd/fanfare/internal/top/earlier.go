package top

import (
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// What was there in the observation before.

// busKey is what a bus keeps as long as it lives.
type busKey struct {
	losses.BusKey
	since int64
}

func keyOf(p *inspect.Process, b *inspect.Bus) busKey {
	return busKey{losses.KeyOf(p, b), b.Since.UnixNano()}
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

// first is the first element of a list for which is is true; nil: there is none.
func first[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// best is the element for which is is true that comes before the others.
func best[T any](list []T, is func(*T) bool, before func(a, b *T) bool) (best *T) {
	for i := range list {
		if x := &list[i]; is(x) && (best == nil || before(x, best)) {
			best = x
		}
	}
	return best
}
