package engine

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// ErrNoRequest says that a message is not a request, so it has no reply.
var ErrNoRequest = errors.New("the message is no request")

// Asked is a request that a subscription delivered, with what its reply needs. It stays valid after the message.
type Asked struct {
	g             *group
	of            events.Instance
	topic, number uint64
	answered      atomic.Bool
}

// asks marks the message in d, which g has delivered, as a request.
func (d *Delivery) asks(g *group) {
	from := *d.From
	from.Asked = &Asked{g: g, of: from.Instance, topic: d.Topic.ID, number: d.Number}
	d.From = &from
}

// AskedOf returns the request with this origin, or nil.
func AskedOf(from *reliable.Origin) *Asked {
	if from == nil || from.Asked == nil {
		return nil
	}
	return from.Asked.(*Asked)
}

// Respond replies with a copy of data. Any goroutine may call it, also in a handler. It does not wait for the
// requester. In OnEvent of HandlerSlow it does not report that the requester has gone.
func (a *Asked) Respond(data []byte) error {
	if a == nil {
		return ErrNoRequest
	}
	if a.answered.Load() {
		return topics.ErrAnswered
	}
	l, data := a.g.l, bytes.Clone(data)
	var err error
	signer := l.cfg.Signer
	if signer != nil {
		if err := topics.CheckReply(data); err != nil {
			return err
		}
		data = signer.Reply(&signed.ReplyTo{Instance: a.of, Topic: a.topic, Number: a.number, Receiver: a.g.replies.ID}, data)
	}
	respond := func() error {
		return a.g.replies.Respond(l.now(), a.of, a.topic, a.number, data, signer != nil)
	}
	switch {
	case l.onLoop():
		err = respond()
	case l.watchdog.within(): // OnEvent of HandlerSlow: the loop is in a handler
		if err = topics.CheckReply(data); err == nil {
			err = l.post(func() { _ = respond() })
		}
	default:
		if doErr := l.do(func() { err = respond() }); doErr != nil {
			return doErr
		}
	}
	if err == nil {
		a.answered.Store(true)
	}
	return err
}
