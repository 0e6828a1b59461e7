package sealed

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// What is told once, and what once a minute for as long as it lasts.
func TestNoticesAreToldAgain(t *testing.T) {
	for why, want := range map[transport.UnreadableReason]int{
		transport.UnreadableNoKey:  3,
		transport.UnreadableClock:  3,
		transport.UnreadableKey:    1,
		transport.UnreadableForged: 1,
	} {
		var n notices
		told := 0
		for minute := range int64(3) {
			for range 5 {
				n.tick(minute)
				if _, first := n.once(notice{why: why, key: 7}); first {
					told++
				}
			}
		}
		if told != want {
			t.Errorf("%v: told %d times in three minutes, want %d", why, told, want)
		}
	}
}
