//go:build !linux

package contenders

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// ring needs shared memory as Linux has it.
type ring struct{}

// MaxRing is the largest message of Ring's, in bytes.
const MaxRing = 65500

var errNoRing = errors.New("ring: this baseline is for Linux, as shm:// is: leave it out of -baseline")

// Publish implements worker.Contender.
func (ring) Publish(context.Context, *worker.Run) error { return errNoRing }

// Subscribe implements worker.Contender.
func (ring) Subscribe(context.Context, *worker.Run) error { return errNoRing }
