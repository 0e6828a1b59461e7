package cli

import (
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// Under testing/synctest, time would not advance while a publisher is preempted within a gate.
func init() { engine.Rest = func(time.Duration) { runtime.Gosched() } }
