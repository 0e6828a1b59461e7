//go:build !linux

package bench

import (
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// threadTime is the clock: what a thread had of it is not known here.
func threadTime() time.Duration { return time.Duration(worker.Now()) }
