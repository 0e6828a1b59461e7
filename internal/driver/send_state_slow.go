package driver

import (
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/reliable"
)

// slowState tells of a function that makes a topic's state and takes long, while it runs, and when it has returned: who
// joins waits for it, also for the state of other topics of the group, and says only that none came.
type slowState struct {
	l     *Loop
	topic string
	began reliable.Instant

	mu    sync.Mutex
	timer *time.Timer // under mu
	when  lasting     // under mu
	ended bool        // under mu
}

// watchState begins to look after a function that is called now. over is to be called when it has returned.
func (l *Loop) watchState(topic string) (over func()) {
	w := &slowState{l: l, topic: topic, began: l.now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(firstTold, w.look)
	return w.over
}

// look is what the timer calls.
func (w *slowState) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	d := w.l.now().Sub(w.began)
	if w.when.tell(d) {
		logline.StateSlow.Log(w.l.log, "topic", w.topic, "so_far", d)
	}
	w.timer.Reset(max(w.when.next-d, time.Millisecond))
}

func (w *slowState) over() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	if w.when.over() {
		logline.StateReturned.Log(w.l.log, "topic", w.topic, "after", w.l.now().Sub(w.began))
	}
}
