package engine

import (
	"runtime"
	"time"
)

// Tests under testing/synctest would block if a publisher lost its processor within a gate.
func init() { Rest = func(time.Duration) { runtime.Gosched() } }
