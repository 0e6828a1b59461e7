package engine

import (
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// handlerFuncs is a Handler that calls functions.
type handlerFuncs struct {
	message func(*reliable.Origin, *topics.Track, uint64, []byte)
	run     func(*reliable.Origin, *topics.Track, uint64, []byte, int, int) ([]byte, uint64)
	other   func(*Delivery)
}

func (h handlerFuncs) Message(from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	h.message(from, t, number, data)
}

func (h handlerFuncs) Run(from *reliable.Origin, t *topics.Track, number uint64, body []byte, step, maxBytes int) ([]byte, uint64) {
	return h.run(from, t, number, body, step, maxBytes)
}

func (h handlerFuncs) Other(d *Delivery) { h.other(d) }
