package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fanfaremq/fanfare/pubsub"
)

// sink takes messages.
type sink interface {
	write(m *pubsub.Message) error
	flush() error
}

// frameSink writes messages in a framing.
type frameSink struct{ w *frameWriter }

func (f *frameSink) write(m *pubsub.Message) error { return outputError(f.w.write(m.Data)) }
func (f *frameSink) flush() error                  { return outputError(f.w.flush()) }

// topicSink writes lines with the topic before each message, and a tab between them.
type topicSink struct {
	frameSink
	line []byte
}

func (t *topicSink) write(m *pubsub.Message) error {
	t.line = append(append(append(t.line[:0], m.Topic...), '\t'), m.Data...)
	return outputError(t.w.write(t.line))
}

// mixed says that messages of several topics are written without their topics, if they are.
func (s *sub) mixed() string {
	switch {
	case !s.tally.topics.several() || s.out == "" && (s.json || s.framing == framingLines):
		return ""
	case s.out != "":
		return fmt.Sprintf("messages of several topics go to %s without their topics: -json without -o writes those, too", s.out)
	}
	return fmt.Sprintf("messages of several topics are written without their topics: -framing %s and -json write those, too", framingLines)
}

func outputError(err error) error {
	if err == nil {
		return nil // most often, and errors.As would allocate
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("output: %w", pathError(err))
	}
	return err
}

// jsonSink writes messages as JSON objects.
type jsonSink struct {
	lines *jsonLines
	buf   *bufio.Writer
	msg   jsonMessage
}

func newJSONSink(w io.Writer) *jsonSink {
	j := &jsonSink{msg: jsonMessage{Type: "message"}}
	j.buf = bufio.NewWriterSize(w, firstBuffer)
	j.lines = newJSONLines(j.buf)
	return j
}

func (j *jsonSink) write(m *pubsub.Message) error {
	j.msg.Topic, j.msg.Number, j.msg.Publisher = m.Topic, m.Number, m.Publisher().String()
	j.msg.jsonData = dataAsJSON(m.Data)
	return outputError(j.lines.write(&j.msg))
}

func (j *jsonSink) flush() error { return outputError(j.buf.Flush()) }
