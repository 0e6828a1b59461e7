package driver

import "testing"

// The loop gives way once to whom it has woken, before its thread blocks, and not without that.
func TestGiveWay(t *testing.T) {
	_, l := newLoop(t, Config{})
	s, err := l.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyAuto, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.do(func() {
		l.readied = false
		for _, asleep := range []bool{false, true} {
			s.sleep.Store(asleep)
			l.woken = append(l.woken, s)
			l.wakeSubscriptions()
			if gave := l.giveWay(); gave != asleep {
				t.Errorf("a reader sleeps: %v; the loop gives way: %v", asleep, gave)
			}
			if l.giveWay() {
				t.Error("it gives way again, to nobody")
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}
