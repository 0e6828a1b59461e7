package shm

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport/transporttest"
)

func TestIdleWithoutGroups(t *testing.T) {
	tr := mustOpen(t, Config{Name: "idle", Dir: ownDir(t)})
	defer end(tr)
	transporttest.Idle(t, tr, func() { tr.waiter.Begin(); tr.waiter.End() }, tr.waiter.Parked)
}
