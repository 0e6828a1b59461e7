package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// A turn is used up when handlers have used its time, for any number of messages.
func TestTurnIsUsedUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		cost  time.Duration // of a message
		turns int           // before the budget knows the cost
		max   uint64        // messages in a later turn
		min   uint64
	}{
		{"slower than a turn", 10 * time.Millisecond, 0, 1, 1},
		{"some in a turn", 300 * time.Microsecond, 3, 14, 7},
		{"fast", time.Microsecond, 20, 2600, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b budget
			now := reliable.Instant(time.Hour)
			turn := func() (n uint64) {
				b.begin(now)
				for !b.used {
					if !b.room() {
						t.Fatal("room returned false in a turn that is not used up, want true")
					}
					n++
					if now = now.Add(c.cost); b.left > 1 {
						b.left--
					} else {
						b.took(now)
					}
				}
				b.end(now)
				return n
			}
			for range c.turns {
				turn()
			}
			if n := turn(); n < c.min || n > c.max {
				t.Errorf("%d messages in a turn, want %d to %d", n, c.min, c.max)
			}
			if b.behind() {
				t.Error("behind returned true although nothing was refused, want false")
			}
			if b.room() || !b.behind() || !b.slow {
				t.Errorf("a turn that is used up: refused %v, behind %v, slow %v, want true", b.refused, b.behind(), b.slow)
			}
		})
	}
}

// A piece of a run ends where the next reading of the clock is due, estimated by the size of its first message.
func TestPiece(t *testing.T) {
	body := slices.Repeat([]byte{3, 0, 'a', 'b', 'c'}, 10)
	for _, c := range []struct {
		left uint64
		want int
	}{{1, 5}, {3, 15}, {10, 50}, {11, 50}, {1000, 50}} {
		b := budget{left: c.left}
		if piece := b.piece(body); len(piece) != c.want {
			t.Errorf("%d messages until the next reading: a piece of %d bytes, want %d", c.left, len(piece), c.want)
		}
	}
	if m, _, _ := wire.NextMessage(body); string(m) != "abc" {
		t.Fatalf("the first message is %q, want abc", m)
	}
}
