package fanfare

import (
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	"github.com/fanfaremq/fanfare/pubsub"
)

// UUIDHeader is the header of an envelope that contains the message's UUID. Watermill's other
// adapters use the same name.
const UUIDHeader = "_watermill_message_uuid"

// Marshaler encodes a message for publication.
type Marshaler interface {
	Marshal(topic string, msg *message.Message) ([]byte, error)
}

// Unmarshaler converts a received message. The data of in is read-only, and valid until Unmarshal returns.
type Unmarshaler interface {
	Unmarshal(in pubsub.Message) (*message.Message, error)
}

// Envelope encodes UUID and metadata in an envelope. It is the default of publishers and subscribers.
type Envelope struct{}

// Marshal returns an envelope. Its error matches envelope.ErrTooLarge.
func (Envelope) Marshal(_ string, msg *message.Message) ([]byte, error) {
	headers := make(map[string]string, len(msg.Metadata)+1)
	maps.Copy(headers, msg.Metadata)
	headers[UUIDHeader] = msg.UUID
	return envelope.Append(nil, headers, msg.Payload)
}

// Unmarshal parses an envelope. A message without a UUID, as from another program, gets the UUID
// that Raw assigns. Its errors are those of envelope.Parse.
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

// Raw publishes only the payload, and uses received data as the payload, to exchange messages with
// programs without Watermill. Metadata and UUID are not sent: a received message has no metadata, and a
// UUID derived from publisher, epoch, topic and number, which is the same at every subscriber.
type Raw struct{}

// Marshal returns the payload.
func (Raw) Marshal(_ string, msg *message.Message) ([]byte, error) { return msg.Payload, nil }

// Unmarshal never fails.
func (Raw) Unmarshal(in pubsub.Message) (*message.Message, error) {
	return message.NewMessage(uuidOf(in), append(message.Payload(nil), in.Data...)), nil
}

// uuidOf returns the UUID of a message that was sent without one.
func uuidOf(in pubsub.Message) string {
	return fmt.Sprintf("%v-%v-%s-%d", in.Publisher(), in.Epoch(), in.Topic, in.Number)
}
