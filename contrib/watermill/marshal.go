package fanfare

import (
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	"github.com/fanfaremq/fanfare/pubsub"
)

// UUIDHeader is the header of an envelope that has the message's UUID. Watermill's other
// adapters have the same name for it.
const UUIDHeader = "_watermill_message_uuid"

// Marshaler makes of a message what is published.
type Marshaler interface {
	Marshal(topic string, msg *message.Message) ([]byte, error)
}

// Unmarshaler makes a message of what has come. The data of in is valid, and read-only, until it returns.
type Unmarshaler interface {
	Unmarshal(in pubsub.Message) (*message.Message, error)
}

// Envelope carries UUID and metadata in an envelope; it is the default of both sides.
type Envelope struct{}

// Marshal returns an envelope. Its error matches envelope.ErrTooLarge.
func (Envelope) Marshal(_ string, msg *message.Message) ([]byte, error) {
	headers := make(map[string]string, len(msg.Metadata)+1)
	maps.Copy(headers, msg.Metadata)
	headers[UUIDHeader] = msg.UUID
	return envelope.Append(nil, headers, msg.Payload)
}

// Unmarshal reads an envelope. One without a UUID, which another program may have
// published, gets that of Raw. Its errors are those of envelope.Parse.
func (Envelope) Unmarshal(in pubsub.Message) (*message.Message, error) {
	headers, body, err := envelope.Parse(in.Data)
	if err != nil {
		return nil, err
	}
	uuid, ok := headers[UUIDHeader]
	if !ok {
		uuid = uuidOf(in)
	}
	delete(headers, UUIDHeader)
	msg := message.NewMessage(uuid, append(message.Payload(nil), body...))
	maps.Copy(msg.Metadata, headers)
	return msg, nil
}

// Raw publishes the payload as it is, and takes everything for a payload, so that programs without Watermill can be on
// the other side. Metadata and UUID are not carried: a message that comes has none, and a UUID made of publisher,
// epoch, topic and number, which is the same at every subscriber.
type Raw struct{}

// Marshal returns the payload.
func (Raw) Marshal(_ string, msg *message.Message) ([]byte, error) { return msg.Payload, nil }

// Unmarshal never fails.
func (Raw) Unmarshal(in pubsub.Message) (*message.Message, error) {
	return message.NewMessage(uuidOf(in), append(message.Payload(nil), in.Data...)), nil
}

// uuidOf names a message that has no name of its own.
func uuidOf(in pubsub.Message) string {
	return fmt.Sprintf("%v-%x-%s-%d", in.Publisher(), in.Epoch(), in.Topic, in.Number)
}
