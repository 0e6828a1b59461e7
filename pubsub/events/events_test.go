package events

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every kind has a different text.
func TestKinds(t *testing.T) {
	has := make(map[string]Kind)
	for k := range Kinds {
		if other, ok := has[k.String()]; ok || k.String() == "" {
			t.Errorf("kind %d is %q, and so is %d", k, k, other)
		}
		has[k.String()] = k
	}
}

// PeerText uses the name, the address, or else the id.
func TestPeerText(t *testing.T) {
	for who, want := range map[[2]string]string{
		{"", ""}: "00000000000000ff", {"a", ""}: "a", {"", "b"}: "00000000000000ff at b", {"a", "b"}: "a at b",
	} {
		if got := PeerText(255, who[0], who[1]); got != want {
			t.Errorf("%q is %q, want %q", who, got, want)
		}
	}
}

// The advice for a silent leg depends on its fabric.
func TestSilentLeg(t *testing.T) {
	for leg, want := range map[string]string{"udp://239.20.0.0/16": "that leg's network", "shm://desk": "the same directory"} {
		e := Event{Kind: LegDown, Leg: leg, Publisher: 1}
		if text := e.String(); !strings.Contains(text, want) {
			t.Errorf("leg %q: text %q lacks %q", leg, text, want)
		}
	}
}

// An event states that this bus itself was at fault, and blames no peer.
func TestOwnFault(t *testing.T) {
	for _, kind := range []Kind{PublisherLost, SubscriberSilent, PublisherStalled} {
		e := Event{Kind: kind, Publisher: 1, Subscriber: 1, Group: "g", Err: errors.New("this bus was cut off")}
		if text := e.String(); !strings.Contains(text, ": this bus was cut off (group g)") {
			t.Errorf("%v: text %q, want the error and the group g", kind, text)
		}
	}
}

// An event names the publisher by its name if that is known, and rounds durations as the commands do.
func TestHoldsPublishersUp(t *testing.T) {
	e := Event{Kind: HoldsPublishersUp, Publisher: 1, Name: "pubA", For: 8075 * time.Millisecond, Group: "g"}
	if got, want := e.String(), "holds publishers up: pubA, blocked for 8.08s by packets that did not arrive (group g)"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

// Faults are emitted for the 1st, 2nd, 4th, 8th … occurrence.
func TestFaultCounts(t *testing.T) {
	var c FaultCounts
	var emitted []uint64
	for range 100 {
		if n, emit := c.Add(FaultHole); emit {
			emitted = append(emitted, n)
		}
	}
	if !slices.Equal(emitted, []uint64{1, 2, 4, 8, 16, 32, 64}) {
		t.Errorf("emitted occurrences %v, want the powers of two up to 64", emitted)
	}
}
