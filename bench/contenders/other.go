//go:build !linux

package contenders

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// raw needs the UDP GSO and GRO of Linux, and ring its shared memory.
type (
	raw  struct{ onLinux }
	ring struct{ onLinux }
)

// onLinux is a contender that requires Linux.
type onLinux struct{}

var errNotLinux = errors.New("this baseline requires Linux: leave it out of -baseline")

// Publish implements worker.Contender.
func (onLinux) Publish(context.Context, *worker.Run) error { return errNotLinux }

// Subscribe implements worker.Contender.
func (onLinux) Subscribe(context.Context, *worker.Run) error { return errNotLinux }

// Topical implements worker.Topical.
func (raw) Topical() {}
