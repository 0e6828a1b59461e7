package sealed

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Some notices are reported once, others once a minute while their cause persists.
func TestNoticesAreRepeated(t *testing.T) {
	for why, want := range map[transport.UnreadableReason]int{
		transport.UnreadableNoKey:  3,
		transport.UnreadableClock:  3,
		transport.UnreadableKey:    1,
		transport.UnreadableForged: 1,
	} {
		var n notices
		reported := 0
		for minute := range int64(3) {
			for range 5 {
				n.tick(minute)
				if _, first := n.once(notice{why: why, key: 7}); first {
					reported++
				}
			}
		}
		if reported != want {
			t.Errorf("%v: reported %d times in three minutes, want %d", why, reported, want)
		}
	}
}
