package fanfarepubsub

import (
	"context"
	"errors"
	"net"

	"gocloud.dev/gcerrors"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// errNoBus is the error of a topic or subscription without a bus.
var errNoBus = errors.New("fanfarepubsub: no bus")

// errorCode maps an error to a code of the Go CDK.
func errorCode(err error) gcerrors.ErrorCode {
	for _, c := range []struct {
		err  error
		code gcerrors.ErrorCode
	}{
		{errNoBus, gcerrors.NotFound},
		{net.ErrClosed, gcerrors.FailedPrecondition},
		// The error of a blocked publisher wraps the context's error.
		{context.Canceled, gcerrors.Canceled},
		{context.DeadlineExceeded, gcerrors.DeadlineExceeded},
		{fanfare.ErrTopic, gcerrors.InvalidArgument},
		{fanfare.ErrURL, gcerrors.InvalidArgument},
		{fanfare.ErrMessageTooLarge, gcerrors.InvalidArgument},
		{envelope.ErrTooLarge, gcerrors.InvalidArgument},
		{envelope.ErrNoEnvelope, gcerrors.InvalidArgument},
		{envelope.ErrMalformed, gcerrors.InvalidArgument},
		{errMetadata, gcerrors.InvalidArgument},
		{events.ErrEvicted, gcerrors.ResourceExhausted},
		{events.ErrPublisherRefused, gcerrors.ResourceExhausted},
		{events.ErrTopicCollision, gcerrors.FailedPrecondition},
		{fanfare.ErrNoState, gcerrors.FailedPrecondition},
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return gcerrors.Unknown
}

// errorAs is errors.As for the error types of Fanfare that carry details.
func errorAs(err error, i any) bool {
	switch i.(type) {
	case **events.FlowError, **fanfare.GapError, **fanfare.StateError, **events.EvictedError, **fanfare.TopicError,
		**events.TopicCollisionError, **events.PublisherRefusedError, **events.ConfigMismatchError, **fanfare.URLError,
		**MessageError:
		return errors.As(err, i)
	}
	return false
}
