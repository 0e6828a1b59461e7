package reliable

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// upLog records the names of publishers when they come up.
type upLog struct {
	log
	names []string
}

func (l *upLog) StreamUp(st *Stream) { l.names = append(l.names, st.Origin().Name) }

// A publisher first received by a heartbeat comes up with its name. docs/protocol §5.6.
func TestPublisherComesUpWithItsName(t *testing.T) {
	l := new(upLog)
	r, err := NewReceiver(receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, Memory: &heap{}, Rand: newReceiver(t, new(log), nil).cfg.Rand}), l, l)
	if err != nil {
		t.Fatal(err)
	}
	setTopics(r, 0, []string{"a.b"})
	r.Handle(1, 1, heartbeatOf(1, 0, wire.Heartbeat{SentAt: 1, Name: []byte("feed-a")}))
	r.Handle(1, 1, heartbeatOf(2, 0, wire.Heartbeat{SentAt: 1, Name: []byte("\x1b[31m")}))
	r.Handle(1, 1, data(3, 0, 0))
	want := []string{"feed-a", `"\x1b[31m"`, ""}
	if len(l.names) != len(want) {
		t.Fatalf("up: %q", l.names)
	}
	for i := range want {
		if l.names[i] != want[i] {
			t.Errorf("publisher %d comes up as %q, want %q", i, l.names[i], want[i])
		}
	}
}
