package pubsub

import (
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// In a synctest bubble time would not advance while a goroutine sleeps outside of it, so tests yield instead of
// sleeping when a publisher was descheduled within a gate.
func init() { engine.Rest = func(time.Duration) { runtime.Gosched() } }
