package main

import (
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// Tests under testing/synctest would stand still where a publisher loses its processor within a gate.
func init() { engine.Rest = func(time.Duration) { runtime.Gosched() } }
