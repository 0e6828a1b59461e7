package plural

import (
	"testing"
	"time"
)

func TestN(t *testing.T) {
	for n, want := range map[int]string{0: "0 gaps", 1: "1 gap", 2: "2 gaps", 11: "11 gaps", 101: "101 gaps"} {
		if got := N(n, "gap"); got != want {
			t.Errorf("N(%d, gap) = %q, want %q", n, got, want)
		}
	}
	for noun, want := range map[string]string{"process": "2 processes", "reply": "2 replies", "key": "2 keys"} {
		if got := N(2, noun); got != want {
			t.Errorf("N(2, %s) = %q, want %q", noun, got, want)
		}
	}
}

func TestNth(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0th", 1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 10: "10th", 11: "11th", 12: "12th", 13: "13th", 14: "14th", 21: "21st", 32: "32nd",
		111: "111th", 112: "112th", 113: "113th", 122: "122nd", 512: "512th", 1023: "1023rd", 1 << 63: "9223372036854775808th",
	} {
		if got := Nth(n); got != want {
			t.Errorf("Nth(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{{85_377, "85.4µs"}, {1_234_567, "1.23ms"}, {2_345 * time.Millisecond, "2.35s"}, {325_330_728, "325ms"}, {83_456 * time.Millisecond, "1m23.5s"}} {
		if got := Duration(c.d); got != c.want {
			t.Errorf("Duration(%d) = %q, want %q", c.d, got, c.want)
		}
	}
}
