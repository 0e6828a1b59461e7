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
	most  uint64
	jobs  int
	name  string
	tag   string

	e     *env
	mu    sync.Mutex
	lines *jsonLines   // under mu
	sum   replySummary // under mu
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
	Late     uint64 `json:"late"`     // the requester was gone by then
	Messages uint64 `json:"messages"` // that were no requests
	Gaps     uint64 `json:"gaps"`
	Error    string `json:"error,omitempty"`
}

func replyCommand() command {
	return command{
		name:    "reply",
		summary: "answer requests on a topic, with a text or what a command says",
		usage: `fanfare reply [flags] TOPIC|PATTERN TEXT
fanfare reply [flags] -exec COMMAND TOPIC|PATTERN`,
		about: `The command of -exec is run by the shell once for each request, with the request
as its standard input; its standard output is the reply. It finds the topic in the
environment as FANFARE_TOPIC, and the requester as FANFARE_PUBLISHER. Where it fails
there is no reply, and a line on standard error says why.

Messages that are no requests are passed over.`,
		notes: `With -json each request is an object {"type":"request","topic":...,"number":...,
"publisher":...,"bytes":...,"reply_bytes":...}; the last object is the summary.`,
		examples: `fanfare reply motd 'all is well'
fanfare reply -exec date time.now
fanfare reply -exec 'jq .a+.b' -name adder 'rpc.>'`,
		exitNotes: `An interrupt is its normal end without -n: 0. It is 1 when a request had no reply,
unless the requester was gone by then.`,
		flags: flagsOf(func() *reply { return new(reply) }),
	}
}

func (r *reply) register(fs *flagSet) {
	r.registerURL(fs)
	stringVar(fs, &r.exec, "exec", "", "reply with what `COMMAND` writes")
	atLeast(intVar(fs, &r.jobs, "jobs", 4, "run `N` commands at a time"), 1)
	countVar(fs, &r.most, "n", 0, "end after `COUNT` requests; 0, the default: when interrupted")
	stringVar(fs, &r.name, "name", "", "`NAME` of this side, which requesters see")
	stringVar(fs, &r.tag, "tag", "", "`TAG` of this side, which requesters see")
	r.registerRest(fs)
}

func (r *reply) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare reply [flags] TOPIC TEXT")
	case r.exec == "" && len(operands) == 1:
		return usagef("nothing to reply with: give a text behind the topic, or a command with -exec")
	case r.exec != "" && len(operands) > 1:
		return usagef("reply takes a text or -exec, not both: %q is too many", operands[1])
	case len(operands) > 2:
		return usagef("reply takes a topic and a text: %q is too many; quote a text with spaces", operands[2])
	case r.exec == "" && fs.isSet("jobs"):
		return usagef("-jobs is for -exec")
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
	defer r.watchAlone(e)()
	r.e, r.lines, r.sum = e, newJSONLines(e.stdout), replySummary{Type: "summary", Topic: r.topic}
	sub, err := bus.Subscribe(r.topic)
	if err != nil {
		return err
	}
	if !r.quiet {
		e.console.line("answering requests on %s", r.topic)
	}
	err = r.serve(ctx, sub)
	if r.most == 0 {
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
		text += fmt.Sprintf(", %d too late: the requester was gone", s.Late)
	}
	return text
}

func (r *reply) serve(ctx context.Context, sub *pubsub.Subscription) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := make(chan struct{}, r.jobs)
	for r.most == 0 || r.sum.Requests < r.most {
		m, err := sub.Next(ctx)
		switch {
		case errors.Is(err, pubsub.ErrGap):
			r.sum.Gaps++
			r.complain("%v", plain(err))
			continue
		case errors.Is(err, events.ErrPublisherRefused), errors.Is(err, events.ErrTopicCollision):
			r.complain("%v", plain(err))
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
	cmd.WaitDelay = time.Second // once sh is killed: what it started may hold its output open
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
		r.complain("request %d of %s on %s has no reply: %s", m.Number, m.Publisher(), m.Topic, x.Error)
	}
	if r.json {
		if err := r.lines.write(&x); err != nil {
			r.complain("%v", err)
		}
	}
}

func (r *reply) complain(format string, args ...any) {
	if !r.quiet {
		r.e.console.line(format, args...)
	}
}
