package tally

import (
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// setAll sets every counter of c to a different value and returns their sum.
func setAll(t *testing.T, c any) (sum uint64) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		n, ok := v.Field(i).Addr().Interface().(*atomic.Uint64)
		if !ok {
			t.Fatalf("field %s is not a counter", v.Type().Field(i).Name)
		}
		n.Store(1 << i)
		sum += 1 << i
	}
	return sum
}

func sumOf(s stats.Transport) (sum uint64) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Uint64 { // tallies do not count injections
			sum += f.Uint()
		}
	}
	return sum
}

// Stats contains every counter.
func TestEveryCounterIsReported(t *testing.T) {
	var sent, folded Sent
	var recv Received
	want := setAll(t, &sent)
	folded.Fold(&sent)
	for name, s := range map[string]*Sent{"Sent": &sent, "folded": &folded} {
		var stats stats.Transport
		s.AddTo(&stats)
		if got := sumOf(stats); got != want {
			t.Errorf("%s: reported %b, counted %b", name, got, want)
		}
	}
	var stats stats.Transport
	want = setAll(t, &recv)
	recv.AddTo(&stats)
	if got := sumOf(stats); got != want {
		t.Errorf("Received: reported %b, counted %b", got, want)
	}
}
