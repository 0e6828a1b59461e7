package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type reply struct {
	common
	topic string
	text  string
	exec  string // command line for the shell; empty: text
	max   uint64
	jobs  int
	name  string
	tag   string

	e     *env
	mu    sync.Mutex
	lines *jsonLines   // guarded by mu
	sum   replySummary // guarded by mu
}

type jsonAnswered struct {
	Type      string `json:"type"` // "request"
	Topic     string `json:"topic"`
	Number    uint64 `json:"number"`
	Publisher string `json:"publisher"`
	Bytes     int    `json:"bytes"`       // of the request
	Replied   int    `json:"reply_bytes"` // of the reply
	Error     string `json:"error,omitempty"`
}

type replySummary struct {
	Type     string `json:"type"` // "summary"
	Topic    string `json:"topic"`
	Requests uint64 `json:"requests"`
	Answered uint64 `json:"answered"`
	Failed   uint64 `json:"failed"`
	Late     uint64 `json:"late"`     // the requester had gone
	Messages uint64 `json:"messages"` // messages that are not requests
	Gaps     uint64 `json:"gaps"`
	Error    string `json:"error,omitempty"`
}

func replyCommand() command {
	return command{
		name:    "reply",
		summary: "reply to requests on a topic, with a text or the output of a command",
		usage: `fanfare reply [flags] TOPIC|PATTERN TEXT
fanfare reply [flags] -exec COMMAND TOPIC|PATTERN`,
		about: `The shell runs the command of -exec once for each request. Its standard input is the
request, its standard output the reply, and the environment has FANFARE_TOPIC and
FANFARE_PUBLISHER, the requester. If the command fails, no reply is sent, and a line
on standard error gives the reason.

Messages that are not requests are ignored.`,
		notes: `With -json each request is an object {"type":"request","topic":...,"number":...,
"publisher":...,"bytes":...,"reply_bytes":...}; the last object is the summary.`,
		examples: `fanfare reply motd 'all is well'
fanfare reply -exec date time.now
fanfare reply -exec 'jq .a+.b' -name adder 'rpc.>'`,
		exitNotes: `It is 0 when reply without -n is interrupted, and 1 when a request had no reply,
unless the requester had gone.`,
		flags: flagsOf(func() *reply { return new(reply) }),
	}
}

func (r *reply) register(fs *flagSet) {
	r.registerURL(fs)
	stringVar(fs, &r.exec, "exec", "", "reply with the standard output of `COMMAND`")
	atLeast(intVar(fs, &r.jobs, "jobs", 4, "run at most `N` commands at the same time"), 1)
	countVar(fs, &r.max, "n", 0, "end after `COUNT` requests; 0, the default: when interrupted")
	stringVar(fs, &r.name, "name", "", "`NAME` of this process, shown to requesters")
	stringVar(fs, &r.tag, "tag", "", "`TAG` of this process, shown to requesters")
	r.registerOther(fs)
}

func (r *reply) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare reply [flags] TOPIC TEXT")
	case r.exec == "" && len(operands) == 1:
		return usagef("no reply given: add a text after the topic, or a command with -exec")
	case r.exec != "" && len(operands) > 1:
		return usagef("reply with either a text or -exec: %q is too many", operands[1])
	case len(operands) > 2:
		return usagef("reply needs a topic and a text: %q is too many; quote a text with spaces", operands[2])
	case r.exec == "" && fs.isSet("jobs"):
		return usagef("-jobs needs -exec")
	}
	if r.topic = operands[0]; r.exec == "" {
		r.text = operands[1]
	}
	return cmp.Or(checkTopics(operands[:1], pubsub.CheckPattern), r.common.check())
}

func (r *reply) run(ctx context.Context, e *env) error {
	bus, log, closeBus, err := r.open(ctx, e, pubsub.Config{
		Name: r.name, Tag: r.tag, OnEvent: func(ev events.Event) { r.fabricEvent(e, ev) },
	})
	if err != nil {
		return err
	}
	defer closeBus()
	log.release(!r.quiet, r.quiet, replyWords)
	defer r.watchInProcess(e)()
	r.e, r.lines, r.sum = e, newJSONLines(e.stdout), replySummary{Type: "summary", Topic: r.topic}
	sub, err := bus.Subscribe(r.topic)
	if err != nil {
		return err
	}
	if !r.quiet {
		e.console.line("replying to requests on %s", r.topic)
	}
	err = r.serve(ctx, sub)
	if r.max == 0 {
		err = normalEnd(ctx, err)
	}
	if r.json {
		r.sum.Error = plain(err)
		err = cmp.Or(err, r.lines.write(&r.sum))
	} else if !r.quiet {
		e.console.line("%s", r.sum.line())
	}
	if err == nil && r.sum.Failed > 0 {
		return errReported
	}
	return err
}

func (s *replySummary) line() string {
	text := fmt.Sprintf("%s, %d answered", count(s.Requests, "request"), s.Answered)
	if s.Late > 0 {
		text += fmt.Sprintf(", %d too late: the requester had gone", s.Late)
	}
	return text
}

func (r *reply) serve(ctx context.Context, sub *pubsub.Subscription) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := make(chan struct{}, r.jobs)
	for r.max == 0 || r.sum.Requests < r.max {
		m, err := sub.Next(ctx)
		switch {
		case errors.Is(err, pubsub.ErrGap):
			r.sum.Gaps++
			r.report("%v", plain(err))
			continue
		case errors.Is(err, events.ErrPublisherRefused), errors.Is(err, events.ErrTopicCollision):
			r.report("%v", plain(err))
			continue
		case err != nil:
			return err
		case !m.IsRequest():
			r.sum.Messages++
			continue
		}
		r.sum.Requests++
		if r.exec == "" {
			r.answer(&m, []byte(r.text), nil)
			continue
		}
		m = m.Clone()
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wg.Go(func() {
			defer func() { <-turns }()
			data, err := r.command(ctx, &m)
			r.answer(&m, data, err)
		})
	}
	return nil
}

func (r *reply) command(ctx context.Context, m *pubsub.Message) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", r.exec)
	cmd.WaitDelay = time.Second // after sh is killed, its children may keep its output open
	cmd.Stdin = bytes.NewReader(m.Data)
	cmd.Env = append(os.Environ(), "FANFARE_TOPIC="+m.Topic, "FANFARE_PUBLISHER="+m.Publisher().String())
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		line, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n")
		err = fmt.Errorf("%w: %q", err, line)
	}
	return out, err
}

func (r *reply) answer(m *pubsub.Message, data []byte, err error) {
	if err == nil {
		err = m.Respond(data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	x := jsonAnswered{Type: "request", Topic: m.Topic, Number: m.Number, Publisher: m.Publisher().String(), Bytes: len(m.Data), Replied: len(data)}
	switch {
	case err == nil:
		r.sum.Answered++
	case errors.Is(err, pubsub.ErrRequesterGone):
		r.sum.Late++
		x.Replied, x.Error = 0, plain(err)
	default:
		r.sum.Failed++
		x.Replied, x.Error = 0, plain(err)
		r.report("request %d of %s on %s has no reply: %s", m.Number, m.Publisher(), m.Topic, x.Error)
	}
	if r.json {
		if err := r.lines.write(&x); err != nil {
			r.report("%v", err)
		}
	}
}

func (r *reply) report(format string, args ...any) {
	if !r.quiet {
		r.e.console.line(format, args...)
	}
}
