package engine

import (
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/internal/bias"
)

// Tests under testing/synctest would stand still where a publisher is taken its processor away within a gate.
func init() { bias.Rest = func(time.Duration) { runtime.Gosched() } }
