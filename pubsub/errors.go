package pubsub

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/reliable"
)

// Errors of this package; match with errors.Is. Calls on something closed return an error that matches net.ErrClosed.
// Calls that end by their context return one that matches context.Canceled or context.DeadlineExceeded, and the cause
// of the context's end (context.Cause).
var (
	// ErrMessageTooLarge: more than 16 MiB.
	ErrMessageTooLarge = reliable.ErrMessageTooLarge
	// ErrTopic: the name is no topic.
	ErrTopic = errors.New("invalid topic")
	// ErrWildcard: a pattern with * or > stands where a topic is needed, as for a publisher. It is an ErrTopic too.
	ErrWildcard = errors.New("a pattern is no topic")
	// ErrURL: the fabric's URL cannot be used.
	ErrURL = errors.New("invalid URL")
	// ErrGap: messages were lost permanently. *GapError says which.
	ErrGap = errors.New("messages were lost")
	// ErrInHandler: a handler, or OnEvent, made a call that waits for its own bus, such as Subscribe, Close, or a Publish
	// that has no room. Other goroutines may make it meanwhile.
	ErrInHandler = engine.ErrInHandler
	// ErrNoResponders: no subscriber of the topic of a request exists, or none is left.
	// *NoReplyError says how many there were.
	ErrNoResponders = engine.ErrNoResponders
	// ErrNoRequest: Respond to a message that is no request.
	ErrNoRequest = engine.ErrNoRequest
	// ErrAnswered: a second Respond of this bus to one request.
	ErrAnswered = reliable.ErrAnswered
	// ErrRequesterGone: the publisher of the request has ended, or has fallen silent.
	ErrRequesterGone = reliable.ErrRequesterGone
	// ErrConcurrentNext: two goroutines read one subscription.
	ErrConcurrentNext = engine.ErrConcurrentNext
)

// TopicError says what is wrong with a topic name. It matches ErrTopic, and ErrWildcard where that is the reason.
type TopicError struct {
	Topic  string
	Reason string
	kind   error
}

func (e *TopicError) Error() string {
	return fmt.Sprintf("pubsub: invalid topic %q: %s", e.Topic, e.Reason)
}

// Is makes errors.Is work with ErrTopic and ErrWildcard.
func (e *TopicError) Is(target error) bool { return target == ErrTopic || target == e.kind }

// ConfigError says which field of Config is wrong, its value, and what it must be.
type ConfigError struct {
	Field string // its name in Config
	Value string // text in quotes
	Must  string // be
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("pubsub: Config.%s is %s; it must be %s", e.Field, e.Value, e.Must)
}

// URLError says what is wrong with a URL. It matches ErrURL and the cause.
type URLError struct {
	URL string
	Err error
}

func (e *URLError) Error() string { return fmt.Sprintf("pubsub: invalid URL %q: %v", e.URL, e.Err) }

// Unwrap returns ErrURL and the cause.
func (e *URLError) Unwrap() []error { return []error{ErrURL, e.Err} }
