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
	errNothing = errors.New("nothing there")
	errIdle    = errors.New("no message came for a while")
	errUntil   = errors.New("the time is over")
)

func (s *sub) receive(ctx context.Context) error {
	now, cancel := context.WithCancelCause(context.Background())
	cancel(errNothing)
	const lookEvery = 256 // messages
	unlooked := 0
	for msgs := make([]pubsub.Message, lookEvery); s.finished == ""; {
		n, err := s.s.NextBatch(now, msgs) // takes those that have come, and does not wait
		if errors.Is(err, errNothing) {
			// A context that has ended is noticed now and then also where messages are there: what is said twice is so.
			n, err = s.s.NextBatch(now, msgs)
		}
		nothing := errors.Is(err, errNothing)
		if nothing {
			s.tally.mark()
			if err := cmp.Or(s.writeStalls(), s.sink.flush()); err != nil { // nothing more comes at once
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
		if unlooked += max(n, 1); nothing {
			unlooked = 0
		}
		if unlooked >= lookEvery {
			unlooked = 0
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

// next waits for messages, but no longer than the idle time since the last one.
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
	topics bool // before each message its topic and a tab
}

func (f *frameSink) write(m *pubsub.Message) error {
	if f.topics {
		f.w.WriteString(m.Topic)
		f.w.WriteByte('\t') // an error stays, and comes with the message
	}
	return outputError(f.frameWriter.write(m.Data))
}

func (f *frameSink) flush() error { return outputError(f.frameWriter.flush()) }

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
