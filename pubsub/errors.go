package pubsub

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
)

// Errors of this package; match them with errors.Is. Calls on a closed bus, publisher or subscription return an error
// that matches net.ErrClosed. When the context of a call ends, its error matches context.Canceled or
// context.DeadlineExceeded, and the context's cause (context.Cause).
var (
	// ErrMessageTooLarge: the message has more than 16 MiB.
	ErrMessageTooLarge = topics.ErrMessageTooLarge
	// ErrTopic: the name is not a valid topic (CheckTopic).
	ErrTopic = errors.New("invalid topic")
	// ErrWildcard: a pattern with * or > was given where a topic is needed, as for a publisher. The error also matches
	// ErrTopic.
	ErrWildcard = errors.New("a pattern is no topic")
	// ErrURL: the fabric's URL cannot be used.
	ErrURL = errors.New("invalid URL")
	// ErrGap: messages were lost permanently. The *GapError has their numbers.
	ErrGap = errors.New("messages were lost")
	// ErrInHandler: a handler, or OnEvent, made a call that waits for its own bus, such as Subscribe, Close, or a
	// Publish that has no room. Other goroutines may make such calls meanwhile.
	ErrInHandler = engine.ErrInHandler
	// ErrNoResponders: the topic of a request has no subscriber, or none is left. The *NoReplyError has their number.
	ErrNoResponders = engine.ErrNoResponders
	// ErrNoRequest: Respond was called on a message that is not a request.
	ErrNoRequest = engine.ErrNoRequest
	// ErrAnswered: this bus has already responded to the request.
	ErrAnswered = topics.ErrAnswered
	// ErrRequesterGone: the publisher of the request has ended, or has fallen silent.
	ErrRequesterGone = topics.ErrRequesterGone
	// ErrConcurrentNext: two goroutines read one subscription at the same time.
	ErrConcurrentNext = engine.ErrConcurrentNext
)

// TopicError reports an invalid topic name. It matches ErrTopic, and ErrWildcard if that is the reason.
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

// ConfigError reports an invalid field of Config: its name, its value, and what the value must be.
type ConfigError struct {
	Field string // its name in Config
	Value string // strings are quoted
	Must  string // what Value must be
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("pubsub: Config.%s is %s; it must be %s", e.Field, e.Value, e.Must)
}

// URLError reports an invalid URL. It matches ErrURL and the cause.
type URLError struct {
	URL string
	Err error
}

func (e *URLError) Error() string { return fmt.Sprintf("pubsub: invalid URL %q: %v", e.URL, e.Err) }

// Unwrap returns ErrURL and the cause.
func (e *URLError) Unwrap() []error { return []error{ErrURL, e.Err} }
