package engine

import (
	"runtime"
	"time"
)

// Tests under testing/synctest would stand still where a publisher loses its processor within a gate.
func init() { Rest = func(time.Duration) { runtime.Gosched() } }
