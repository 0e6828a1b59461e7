package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fanfaremq/fanfare/pubsub"
)

var (
	errNothing = errors.New("no message available")
	errIdle    = errors.New("idle")
	errUntil   = errors.New("time of -until passed")
)

func (s *sub) receive(ctx context.Context) error {
	now, cancel := context.WithCancelCause(context.Background())
	cancel(errNothing)
	const checkEvery = 256 // messages
	unchecked := 0
	for msgs := make([]pubsub.Message, checkEvery); s.finished == ""; {
		n, err := s.s.NextBatch(now, msgs) // returns available messages without waiting
		if errors.Is(err, errNothing) {
			// NextBatch sometimes checks its context first, even if messages are available; the second call returns them.
			n, err = s.s.NextBatch(now, msgs)
		}
		nothing := errors.Is(err, errNothing)
		if nothing {
			s.tally.mark()
			if err := cmp.Or(s.writeStalls(), s.sink.flush()); err != nil { // no further message is available now
				return err
			}
			n, err = s.next(ctx, msgs)
		}
		if err != nil {
			n, err = 0, s.other(err)
		} else {
			s.idled = 0
		}
		for i := 0; i < n && err == nil && s.finished == ""; i++ {
			err = s.message(&msgs[i])
		}
		if err != nil {
			return err
		}
		if unchecked += max(n, 1); nothing {
			unchecked = 0
		}
		if unchecked >= checkEvery {
			unchecked = 0
			s.tally.mark()
			if err := context.Cause(ctx); err != nil {
				if errors.Is(err, errUntil) {
					s.finished, err = endUntil, nil
				}
				return err
			}
		}
	}
	return nil
}

func (s *sub) next(ctx context.Context, msgs []pubsub.Message) (n int, err error) {
	if s.idle == 0 {
		return s.s.NextBatch(ctx, msgs)
	}
	ran, err := whileRunning(ctx, s.idle-s.idled, errIdle, func(ctx context.Context) (err error) {
		n, err = s.s.NextBatch(ctx, msgs)
		return err
	})
	s.idled += ran
	return n, err
}

type sink interface {
	write(m *pubsub.Message) error
	flush() error
}

type frameSink struct {
	*frameWriter
	topics bool // write the topic and a tab before each message
}

func (f *frameSink) write(m *pubsub.Message) error {
	if f.topics {
		f.w.WriteString(m.Topic)
		f.w.WriteByte('\t') // its error is sticky and returned for the message
	}
	return outputError(f.frameWriter.write(m.Data))
}

func (f *frameSink) flush() error { return outputError(f.frameWriter.flush()) }

// mixed is the warning that messages of several topics are written without their topics; otherwise empty.
func (s *sub) mixed() string {
	switch {
	case !s.tally.topics.several() || s.out == "" && (s.json || s.framing == framingLines):
		return ""
	case s.out != "":
		return fmt.Sprintf("messages of several topics are written to %s without their topics: use -json without -o to include them", s.out)
	}
	return fmt.Sprintf("messages of several topics are written without their topics: use -framing %s or -json to include them", framingLines)
}

func outputError(err error) error {
	if err == nil {
		return nil // the usual case; errors.As would allocate
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("output: %w", pathError(err))
	}
	return err
}

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
