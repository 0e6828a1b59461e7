package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// Origin identifies the publisher's instance that something comes from. It never changes: a reader that learns more of
// a publisher makes a new one.
type Origin struct {
	Publisher uint64
	Epoch     uint64
	// Name is what the publisher calls itself, as it may be shown to people
	// (wire.CleanName); empty until it was heard, or if it has none.
	Name string
	// Address is where it was heard from last, as the fabric writes it; it may be empty.
	Address string
	// State is for copies that go with state: a message has no room for it.
	State StatePart

	// Asked is what the reply to a request needs, set by the reader that delivers the message; nil in that of a Stream.
	Asked any

	raw string // the name as it came
}

// StatePart says what an Item has to do with state.
type StatePart uint8

const (
	// StateOfNone: it is a message or a gap.
	StateOfNone StatePart = iota
	// StateRecord is a part of the topic's state. Number is that of the first message which is not in it.
	StateRecord
	// StateEnd: the topic's state is whole. Message Number follows.
	StateEnd
	// StateMissing: there is no state of the topic, and Why. What follows begins with what is published from then on.
	StateMissing
)

// Origin returns what is known of the stream's publisher. Any goroutine may call it.
func (st *Stream) Origin() *Origin { return st.origin.Load() }

// named takes in the name from a heartbeat.
func (st *Stream) named(name []byte) {
	o := st.origin.Load()
	if o.raw == string(name) {
		return
	}
	o = &Origin{Publisher: o.Publisher, Epoch: o.Epoch, Name: wire.CleanName(name), Address: o.Address, raw: string(name)}
	st.origin.Store(o)
}

// moved notes that the publisher is heard from another address.
func (st *Stream) moved(address string) {
	o := *st.origin.Load()
	o.Address = address
	st.origin.Store(&o)
}
