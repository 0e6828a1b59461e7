package peers

import (
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

func TestTable(t *testing.T) {
	tab := New[string, int](2)
	a, err := tab.Retain("a", 1)
	if err != nil || a == 0 {
		t.Fatalf("Retain of a: peer %v, error %v, want one other than 0", a, err)
	}
	if again, _ := tab.Retain("a", 99); again != a || *tab.Get(a) != 1 {
		t.Fatalf("the same source gave peer %v with value %v, want %v and 1", again, *tab.Get(a), a)
	}
	b, err := tab.Retain("b", 2)
	if err != nil || b == a {
		t.Fatalf("Retain of b: peer %v, error %v, want one other than %v", b, err, a)
	}
	if _, err := tab.Retain("c", 3); !errors.Is(err, transport.ErrPeerLimit) {
		t.Fatalf("Retain of a third peer of two: error %v, want %v", err, transport.ErrPeerLimit)
	}
	tab.Forget(a)
	if tab.Get(a) == nil {
		t.Fatal("a was retained twice and forgotten once, but does not exist")
	}
	tab.Forget(a)
	if tab.Get(a) != nil || tab.Len() != 1 {
		t.Fatal("a still exists")
	}
	c, err := tab.Retain("c", 3)
	if err != nil {
		t.Fatal(err)
	}
	if c == a {
		t.Fatal("a new peer has the number of a forgotten one")
	}
	tab.Forget(a) // a stale number must not affect c
	if v := tab.Get(c); v == nil || *v != 3 {
		t.Fatal("a stale Forget affected another peer")
	}
	tab.Forget(0)
	tab.Forget(12345)
	if tab.Get(0) != nil {
		t.Fatal("peer zero exists")
	}
}

func TestAll(t *testing.T) {
	tab := New[string, int](4)
	for i, key := range []string{"a", "b", "c"} {
		if p, _ := tab.Retain(key, i+1); key == "b" {
			tab.Forget(p)
		}
	}
	sum := 0
	for v := range tab.All() {
		sum += v
	}
	if sum != 1+3 {
		t.Errorf("the values of the retained peers add up to %d, want 4", sum)
	}
	for range tab.All() {
		break
	}
}
