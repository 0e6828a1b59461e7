package sys

import "testing"

func TestAllocIsZeroedAndWritable(t *testing.T) {
	mem, err := Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range mem {
		if b != 0 {
			t.Fatalf("byte %d is %#x, want 0", i, b)
		}
	}
	mem[0], mem[len(mem)-1] = 1, 2
	Free(mem)
	Free(nil)
}

func TestAllocRefusesInvalidSizes(t *testing.T) {
	for _, n := range []int{0, -1} {
		if _, err := Alloc(n); err == nil {
			t.Errorf("Alloc(%d) succeeded", n)
		}
	}
}
