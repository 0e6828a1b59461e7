package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

type request struct {
	common
	topic   string
	text    string // the message
	stdin   bool   // read the message from standard input
	replies int
	wait    int
	timeout time.Duration
	name    string
}

type jsonReply struct {
	Type      string `json:"type"` // "reply"
	Responder string `json:"responder"`
	Name      string `json:"name,omitempty"`
	Address   string `json:"address,omitempty"`
	Tag       string `json:"tag,omitempty"`
	jsonData
	After float64 `json:"after_us"`
}

type requestSummary struct {
	Type    string `json:"type"` // "summary"
	Topic   string `json:"topic"`
	Replies int    `json:"replies"`
	// For a request with fewer replies than requested: the subscribers of the topic, those that
	// received the request, and those that left without a reply.
	Subscribers int    `json:"subscribers,omitempty"`
	Heard       int    `json:"heard,omitempty"`
	Gone        int    `json:"gone,omitempty"`
	Error       string `json:"error,omitempty"`
}

const requestTimeout = 5 * time.Second

func requestCommand() command {
	return command{
		name:    "request",
		summary: "send a request to the subscribers of a topic, and print their replies",
		usage:   "fanfare request [flags] TOPIC [MESSAGE]",
		about: `Without MESSAGE the request is read from standard input, up to 16 MiB. Each reply is
printed as it arrives, with a newline unless it ends in one.`,
		notes: `With -json each reply is an object {"type":"reply","responder":...,"name":...,
"data":...,"after_us":...} ("data_base64" instead of "data" if it is not UTF-8); the
last object is the summary.`,
		examples: `fanfare request time.now ''
fanfare request -replies 0 -wait 3 weather oslo
fanfare request -json -timeout 1s rpc.add < numbers.json`,
		exits: []word{mismatchExit},
		exitNotes: `It is 1 when fewer than -replies arrived: the topic has no subscriber, its subscribers
left, or the timeout passed.`,
		flags: flagsOf(func() *request { return new(request) }),
	}
}

func (r *request) register(fs *flagSet) {
	r.registerURL(fs)
	atLeast(intVar(fs, &r.replies, "replies", 1, "wait for `N` replies, each from a different subscriber; 0: one from each known subscriber"), 0)
	atLeast(intVar(fs, &r.wait, "wait", 0, "wait for `N` subscribers of the topic before sending the request"), 0)
	above(durationVar(fs, &r.timeout, "timeout", requestTimeout, "time limit for subscribers and replies (such as 500ms, 5s)"), 0)
	stringVar(fs, &r.name, "name", "", "`NAME` of this process, for the logs of others")
	r.registerOther(fs)
}

func (r *request) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 0:
		return usagef("no topic given: fanfare request [flags] TOPIC [MESSAGE]")
	case len(operands) > 2:
		return usagef("request needs a topic and a message: %q is too many; quote a message with spaces", operands[2])
	}
	r.topic, r.stdin = operands[0], len(operands) == 1
	if !r.stdin {
		r.text = operands[1]
	}
	return cmp.Or(checkTopics(operands[:1], pubsub.CheckTopic), r.common.check())
}

var errNoTime = errors.New("timeout")

func (r *request) run(ctx context.Context, e *env) error {
	msg := []byte(r.text)
	if r.stdin {
		var err error
		if msg, err = io.ReadAll(io.LimitReader(e.stdin, maxMessage+1)); err != nil {
			return pathError(err)
		}
	}
	if len(msg) > maxMessage {
		return usagef("the message has more than %d bytes", maxMessage)
	}
	bus, log, closeBus, err := r.open(ctx, e, pubsub.Config{
		Name: r.name, Linger: 100 * time.Millisecond, OnEvent: func(ev events.Event) { r.fabricEvent(e, ev) },
	})
	if err != nil {
		return err
	}
	defer closeBus()
	log.release(!r.quiet, r.quiet, mismatchWords)
	defer r.watchInProcess(e)()
	sum, lines := requestSummary{Type: "summary", Topic: r.topic}, newJSONLines(e.stdout)
	timed, stop := context.WithTimeoutCause(ctx, r.timeout, errNoTime)
	defer stop()
	err = r.ask(timed, bus, msg, func(x *pubsub.Reply) error {
		sum.Replies++
		if r.json {
			return lines.write(&jsonReply{"reply", x.Responder.String(), x.Name, x.Address, x.Tag, dataAsJSON(x.Data), micro(x.After)})
		}
		text := x.Data
		if !bytes.HasSuffix(text, []byte("\n")) { // commands of reply -exec usually write one
			text = append(bytes.Clone(text), '\n')
		}
		_, err := e.stdout.Write(text)
		return err
	})
	if m := r.apart.Load(); m != nil && !errors.As(err, new(*events.ConfigMismatchError)) && !r.quiet {
		e.console.line("%v", m)
	}
	var few *pubsub.NoReplyError
	if errors.As(err, &few) {
		sum.Subscribers, sum.Heard, sum.Gone = few.Subscribers, few.Heard, few.Gone
		if few.Subscribers == 0 && errors.Is(err, pubsub.ErrNoResponders) {
			err = fmt.Errorf("%s has no subscriber: run 'fanfare reply' with the same -t on the other side, or wait for it with -wait 1", r.topic)
		}
	}
	if r.json {
		sum.Error = plain(err)
		err = cmp.Or(err, lines.write(&sum))
	}
	return mismatchError(err)
}

func (r *request) ask(ctx context.Context, bus *pubsub.Bus, msg []byte, each func(*pubsub.Reply) error) error {
	if r.wait > 0 {
		pub, err := bus.Publisher(r.topic)
		if err == nil {
			err = pub.WaitSubscribers(ctx, r.wait)
		}
		if err != nil {
			return err
		}
	}
	for x, err := range bus.RequestMany(ctx, r.topic, msg, r.replies) {
		if err == nil {
			err = each(&x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
