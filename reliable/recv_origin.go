package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Origin identifies the publisher instance from which an event comes. It is immutable: newer information makes a new
// Origin.
type Origin struct {
	events.Instance
	// Name is the publisher's name, fit to be shown (wire.CleanName); empty if unknown or if it has none.
	Name string
	// Address is the text of its last source address, as the fabric writes it; it may be empty.
	Address string
	// State is set in copies that accompany state: a message has no field for it.
	State StatePart

	// Asked is what a reply to the request needs, set by the reader that delivers the message; nil in a Stream's Origin.
	Asked any

	raw string // the name as received
}

// StatePart says how an Item relates to state.
type StatePart uint8

const (
	// StateOfNone: a message or a gap.
	StateOfNone StatePart = iota
	// StateRecord: a part of the topic's state. Number is that of the first message that the state does not include.
	StateRecord
	// StateEnd: the topic's state is complete. Message Number follows.
	StateEnd
	// StateMissing: the topic has no state, because of Why. Messages published from now on follow.
	StateMissing
)

// Origin returns what is known of the stream's publisher. Any goroutine may call it.
func (st *Stream) Origin() *Origin { return st.origin.Load() }

// named takes over the name from a heartbeat.
func (st *Stream) named(name []byte) {
	o := st.origin.Load()
	if o.raw == string(name) {
		return
	}
	o = &Origin{Instance: o.Instance, Name: wire.CleanName(name), Address: o.Address, raw: string(name)}
	st.origin.Store(o)
}

// moved records the publisher's new address.
func (st *Stream) moved(address string) {
	o := *st.origin.Load()
	o.Address = address
	st.origin.Store(&o)
}
