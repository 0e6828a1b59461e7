package otel_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fanfaremq/fanfare/contrib/otel"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A bus with losses records a span for each repair, with its start time and the packet's publisher.
func TestRepairs(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var spans tracetest.SpanRecorder
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&spans))
	open := func(c pubsub.Config) *pubsub.Bus {
		c.Logger = slog.New(slog.DiscardHandler)
		b, err := c.Open(ctx, "mem://"+t.Name())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	a, b := open(pubsub.Config{Name: "feed"}), open(pubsub.Config{Faults: "loss=0.1,seed=7", Trace: otel.Trace(provider)})
	sub, err := b.Subscribe("x")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := a.Publisher("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := pub.Publish(ctx, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	repaired := b.Stats().Groups[0].Repaired
	ended := spans.Ended()
	if repaired == 0 || uint64(len(ended)) != repaired {
		t.Fatalf("%d spans, want one for each of %d repairs", len(ended), repaired)
	}
	for _, s := range ended {
		if s.Name() != "fanfare repair" || !s.EndTime().After(s.StartTime()) || s.Status().Code != codes.Unset || value(s, otel.Name) != "feed" || value(s, otel.Packets) != "1" || value(s, otel.Group) == "" {
			t.Errorf(`span %s with %v, want "fanfare repair" of 1 packet of "feed" with a group and a duration`, s.Name(), s.Attributes())
		}
	}
}

// A permanent loss is a span with status Error and its cause.
func TestLoss(t *testing.T) {
	var spans tracetest.SpanRecorder
	otel.Trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&spans))).Lost(pubsub.TraceLoss{Group: "g", First: 7, Packets: 3, Cause: events.CauseDeadline})
	s := spans.Ended()[0]
	if s.Name() != "fanfare loss" || s.Status().Code != codes.Error || value(s, otel.Cause) != "deadline" || value(s, otel.First) != "7" || value(s, otel.Packets) != "3" {
		t.Errorf(`span %s with status %v and %v, want the error "fanfare loss" of 3 packets from 7, cause deadline`, s.Name(), s.Status(), s.Attributes())
	}
}

func value(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.Emit()
		}
	}
	return ""
}
