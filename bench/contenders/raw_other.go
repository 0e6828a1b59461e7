//go:build !linux

package contenders

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// raw needs UDP GSO and GRO as Linux has them.
type raw struct{}

var errNoRaw = errors.New("raw: this baseline is for Linux, whose UDP GSO and GRO it uses: leave it out of -baseline")

// Publish implements worker.Contender.
func (raw) Publish(context.Context, *worker.Run) error { return errNoRaw }

// Subscribe implements worker.Contender.
func (raw) Subscribe(context.Context, *worker.Run) error { return errNoRaw }

// Topical implements worker.Topical.
func (raw) Topical() {}
