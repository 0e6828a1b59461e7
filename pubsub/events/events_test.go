package events

import "testing"

// Every kind has a text of its own.
func TestKinds(t *testing.T) {
	has := make(map[string]Kind)
	for k := range Kinds {
		if other, ok := has[k.String()]; ok || k.String() == "" {
			t.Errorf("kind %d is %q, and so is %d", k, k, other)
		}
		has[k.String()] = k
	}
}

// A peer is named by what is known of it.
func TestWho(t *testing.T) {
	for who, want := range map[[2]string]string{
		{"", ""}: "00000000000000ff", {"a", ""}: "a", {"", "b"}: "00000000000000ff at b", {"a", "b"}: "a at b",
	} {
		if got := Who(255, who[0], who[1]); got != want {
			t.Errorf("%q is %q, want %q", who, got, want)
		}
	}
}
