package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"
)

// summary returns the topics as text: name, and each publisher's name and messages.
func (t *TopicList) summary() (all []string) {
	for _, x := range t.Topics {
		text := x.Name
		for _, p := range x.Publishers {
			text += fmt.Sprintf(" %s=%d", p.Name, p.Messages)
		}
		all = append(all, text)
	}
	return all
}

// listed waits until a survey lists exactly want.
func listed(t *testing.T, ctx context.Context, s *Survey, want ...string) *TopicList {
	t.Helper()
	for {
		list, err := s.Topics()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(list.summary(), want) && list.Incomplete == 0 && list.Joined == list.Groups {
			return list
		}
		if ctx.Err() != nil {
			t.Fatalf("found %q, %+v; want %q", list.summary(), list, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// A survey finds idle topics, active topics and new topics, of several publishers, with loss; no publisher counts it
// or waits for it.
func TestSurvey(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		a, b := openBus(t, Config{Name: "a"}, url), openBus(t, Config{Name: "b"}, url)
		quiet, both, other := publisher(t, a, "md.quiet"), publisher(t, a, "md.both"), publisher(t, b, "md.both")
		publish(t, ctx, quiet, "one")
		publish(t, ctx, both, "one")
		publish(t, ctx, other, "one")
		for _, p := range []*Publisher{quiet, both, other} {
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		listener := openBus(t, Config{Faults: "loss=0.1,seed=3"}, url)
		s, err := listener.Survey("md.>", "x")
		if err != nil {
			t.Fatal(err)
		}
		listed(t, ctx, s, "md.both a=1 b=1", "md.quiet a=1")
		narrow, err := listener.Survey("md.*")
		if err != nil {
			t.Fatal(err)
		}
		publish(t, ctx, publisher(t, b, "md.new.one"), "one")
		publish(t, ctx, publisher(t, b, "elsewhere"), "one")
		for i := range 20 { // some arrive
			publish(t, ctx, both, fmt.Sprint(i))
			if err := both.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		list := listed(t, ctx, s, "md.both a=21 b=1", "md.new.one b=1", "md.quiet a=1")
		if list.Publishers != 2 || list.Refused+uint64(list.Failed) != 0 || list.Err != nil || list.For <= 0 {
			t.Errorf("list %+v, want 2 publishers, a duration, nothing refused or failed", list)
		}
		for _, x := range list.Topics {
			p := x.Publishers[0]
			if x.GroupAddress == "" || x.Group != listener.Group(x.Name) || p.ID == 0 || p.Epoch == 0 || x.Name == "md.both" && (p.Rate <= 0 || x.Rate() < p.Rate) || x.Name == "md.quiet" && x.Rate() != 0 {
				t.Errorf("topic %+v, want its group's address and a publisher with an epoch and its rate", x)
			}
		}
		listed(t, ctx, narrow, "md.both a=21 b=1", "md.quiet a=1")
		for _, bus := range []*Bus{a, b} {
			for _, p := range bus.Stats().Publications {
				if p.Receivers != 0 || p.ReceiversJoined != 0 {
					t.Errorf("the survey counts as a subscriber: %+v", p)
				}
			}
		}
		if err := errors.Join(s.Close(), s.Close(), narrow.Close()); err != nil {
			t.Error(err)
		}
		if _, err := s.Topics(); !errors.Is(err, net.ErrClosed) || err.Error() != "pubsub: list topics: the survey is closed" {
			t.Errorf("topics of a closed survey: error %v, want %v", err, net.ErrClosed)
		}
	})
}

// Topics listens until its context ends, which is not an error. Subscriptions and surveys of a bus share memberships:
// each continues when the other ends.
func TestTopicsDuringSubscription(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t) + "?groups=3"
	pubBus, bus := openBus(t, Config{Name: "p"}, url), openBus(t, Config{}, url)
	p := publisher(t, pubBus, "x")
	s, err := bus.Survey()
	if err != nil {
		t.Fatal(err)
	}
	sub := subscribe(t, bus, "x")
	wait(t, ctx, p, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	publish(t, ctx, p, "after the survey")
	want(t, ctx, sub, "after the survey")
	s2, err := bus.Survey()
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	publish(t, ctx, p, "without a subscription")
	listed(t, ctx, s2, "x p=2")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	list, err := bus.Topics(short, "y")
	if err != nil || len(list.Topics) != 0 || list.Groups > 2 || list.For <= 0 {
		t.Errorf("list %+v, error %v, want no topics, at most 2 groups and a duration", list, err)
	}
	if _, err := bus.Topics(ctx, "a..b"); !errors.Is(err, ErrTopic) {
		t.Errorf("an invalid pattern: error %v, want %v", err, ErrTopic)
	}
	done := make(chan error)
	go func() {
		_, err := bus.Topics(ctx)
		done <- err
	}()
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Topics of a bus that is closed: error %v, want %v", err, net.ErrClosed)
	}
	if err := s2.Close(); err != nil {
		t.Errorf("closing a survey of a closed bus: %v", err)
	}
}

// A handler cannot begin a survey.
func TestSurveyInHandler(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, bus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	got := make(chan error, 1)
	if _, err := bus.Handle("x", func(Message, error) {
		_, err := bus.Survey()
		got <- err
	}); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, pubBus, "x")
	wait(t, ctx, p, 1)
	publish(t, ctx, p, "a")
	if err := <-got; !errors.Is(err, ErrInHandler) {
		t.Errorf("Topics in a handler: error %v, want %v", err, ErrInHandler)
	}
}
