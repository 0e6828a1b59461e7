package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fanfaremq/fanfare/bench/requests"
)

// Requests and replies: Fanfare beside NATS.

const natsSubject = "bench.request"

// askers are those that are compared.
var askers = map[string]requests.Contender{"fanfare": requests.Fanfare{}, "nats": natsRequests{}}

// natsRequests is Conn.Request and Msg.Respond, by a server of this process on loopback.
type natsRequests struct{}

// Respond implements requests.Contender.
func (natsRequests) Respond(ctx context.Context, s *requests.Spec, ready func(), executed func([]byte)) error {
	c, err := nats.Connect(s.URL)
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	defer c.Close()
	if _, err := c.Subscribe(natsSubject, func(m *nats.Msg) {
		executed(m.Data)
		m.Respond(m.Data)
	}); err != nil {
		return fmt.Errorf("nats: subscribe: %w", err)
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	ready()
	<-ctx.Done()
	return nil
}

// Ask implements requests.Contender. NATS takes the first reply for all: more are taken from
// an inbox.
func (natsRequests) Ask(_ context.Context, s *requests.Spec) (func(context.Context, []byte) (int, error), func(), error) {
	c, err := nats.Connect(s.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("nats: %w", err)
	}
	if !s.All {
		return func(ctx context.Context, msg []byte) (int, error) {
			if _, err := c.RequestWithContext(ctx, natsSubject, msg); err != nil {
				return 0, err
			}
			return 1, nil
		}, c.Close, nil
	}
	return func(ctx context.Context, msg []byte) (int, error) {
		inbox := c.NewInbox()
		sub, err := c.SubscribeSync(inbox)
		if err != nil {
			return 0, err
		}
		defer sub.Unsubscribe()
		if err := c.PublishRequest(natsSubject, inbox, msg); err != nil {
			return 0, err
		}
		for n := range s.Responders {
			if _, err := sub.NextMsgWithContext(ctx); err != nil {
				return n, err
			}
		}
		return s.Responders, nil
	}, c.Close, nil
}

const requestExamples = `
Examples:
  go run . request
  go run . request -n 10000 -responders 3 -loss 0.01 -all
  go run . request -askers 32 -size 1024 -json
`

// request measures requests of each, in turns.
func request(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("peers request", flag.ContinueOnError)
	s := requests.Spec{Seed: 1}
	fs.StringVar(&s.URL, "t", "udp://239.20.0.0/16?iface=lo&port=7466", "Fanfare's fabric by its `URL`")
	fs.IntVar(&s.Requests, "n", 10000, "requests of a run")
	fs.IntVar(&s.Responders, "responders", 3, "responder processes: each answers each request")
	fs.IntVar(&s.Askers, "askers", 1, "goroutines that ask, each one request after the other")
	fs.IntVar(&s.Size, "size", 64, "`bytes` in a request and its reply, 8 at least")
	fs.Float64Var(&s.Loss, "loss", 0, "share of packets lost at each end of Fanfare's: 0.01 is 1 %. NATS, over TCP, loses none")
	fs.BoolVar(&s.All, "all", false, "wait for the replies of all responders, not for the first")
	runs := fs.Int("runs", 3, "runs of each")
	asJSON := fs.Bool("json", false, "results as JSON objects, one a run")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "Usage: go run . request [flags]")
		fs.PrintDefaults()
		fmt.Fprint(fs.Output(), requestExamples)
	}
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return usageError{err}
	case fs.NArg() > 0:
		return usageError{fmt.Errorf("%q is too many: request takes flags only", fs.Arg(0))}
	case s.Loss < 0 || s.Loss >= 1 || *runs < 1 || s.Requests < 1 || s.Responders < 1 || s.Askers < 1 || s.Size < 8:
		return usageError{errors.New("-loss must be from 0 to below 1, -size 8 or more, and -n, -responders, -askers and -runs 1 or more")}
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return fmt.Errorf("nats: server: %w", err)
	}
	go broker.Start() // returns when it has started
	defer broker.WaitForShutdown()
	defer broker.Shutdown()
	if !broker.ReadyForConnections(10 * time.Second) {
		return errors.New("nats: the server does not get ready")
	}
	fanfare, nats := s, s
	fanfare.Contender, nats.Contender = "fanfare", "nats"
	nats.URL, nats.Loss = broker.ClientURL(), 0
	return requests.Repeat(ctx, exe, *runs, []requests.Spec{fanfare, nats}, askers, *asJSON, os.Stdout, func(int) {})
}
