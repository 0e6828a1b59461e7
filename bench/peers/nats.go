package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// natsPeer is NATS core: publish and subscribe through a server in a separate process, over TCP on loopback.
type natsPeer struct{}

// Topical implements worker.Topical: a topic is a subject.
func (natsPeer) Topical() {}

const (
	natsReady = 10 * time.Second
	// natsPending is how much the server buffers for a slow subscriber before it disconnects it (with
	// the default of 64 MiB within a second at full load).
	natsPending = 1 << 30
	natsDrain   = 30 * time.Second
)

// Serve implements worker.Broker.
func (natsPeer) Serve(ctx context.Context, r *worker.Run) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		MaxPending: natsPending, MaxPayload: 8 << 20, WriteDeadline: natsDrain,
	})
	if err != nil {
		return fmt.Errorf("nats: server: %w", err)
	}
	go s.Start() // returns when the server has started
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(natsReady) {
		return errors.New("nats: the server did not become ready")
	}
	r.Ready(s.ClientURL())
	<-ctx.Done()
	return nil
}

// natsClient runs a side with a connection to the server.
func natsClient(r *worker.Run, side func(c *nats.Conn) error) error {
	c, err := nats.Connect(r.Spec.Broker)
	if err == nil {
		defer c.Close()
		err = side(c)
	}
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return nil
}

// Publish implements worker.Contender.
func (natsPeer) Publish(ctx context.Context, r *worker.Run) error {
	return natsClient(r, func(c *nats.Conn) error {
		subjects := r.Spec.TopicNames()
		r.Ready("")
		return r.Pump(ctx, func(topic int, msg []byte) error { return c.Publish(subjects[topic], msg) }, c.Flush)
	})
}

// Subscribe implements worker.Contender.
func (natsPeer) Subscribe(ctx context.Context, r *worker.Run) error {
	return natsClient(r, func(c *nats.Conn) error {
		v := r.Receiver(true)
		done := make(chan struct{})
		// One subscription, as a NATS user would write for many subjects: separate ones would have a
		// goroutine each, and one of them might receive the last message before others are done.
		subject := r.Spec.Topic
		if r.Spec.Topics > 1 {
			subject += ".*"
		}
		sub, err := c.Subscribe(subject, func(m *nats.Msg) {
			if v.Done() {
				return
			}
			if v.On(m.Subject, m.Data); v.Done() {
				close(done)
			}
		})
		if err != nil {
			return err
		}
		if err := cmp.Or(sub.SetPendingLimits(-1, -1), c.Flush()); err != nil { // Flush: the server has the subscription
			return err
		}
		r.Ready("")
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Respond implements worker.Requester.
func (natsPeer) Respond(ctx context.Context, r *worker.Run) error {
	return natsClient(r, func(c *nats.Conn) error {
		in := worker.NewResponder(r)
		_, err := c.Subscribe(r.Spec.Topic, func(m *nats.Msg) {
			in.Executed(m.Data)
			m.Respond(m.Data)
		})
		if err == nil {
			err = c.Flush()
		}
		if err != nil {
			return err
		}
		return in.Wait(ctx, nil)
	})
}

// Ask implements worker.Requester. NATS delivers only the first reply of a request; more replies need an inbox.
func (natsPeer) Ask(ctx context.Context, r *worker.Run) error {
	return natsClient(r, func(c *nats.Conn) error {
		r.Ready("")
		return r.Requests(ctx, func(ctx context.Context, msg []byte) (replies int, err error) {
			if !r.Spec.AllReplies {
				if _, err := c.RequestWithContext(ctx, r.Spec.Topic, msg); err != nil {
					return 0, err
				}
				return 1, nil
			}
			inbox := c.NewInbox()
			sub, err := c.SubscribeSync(inbox)
			if err != nil {
				return 0, err
			}
			defer sub.Unsubscribe()
			err = c.PublishRequest(r.Spec.Topic, inbox, msg)
			for err == nil && replies < r.Spec.Subs {
				if _, err = sub.NextMsgWithContext(ctx); err == nil {
					replies++
				}
			}
			return replies, err
		})
	})
}
