// Package otel shows the steps of packets as spans of OpenTelemetry: an example of
// pubsub.Trace, in a module of its own, so that Fanfare does not depend on OpenTelemetry.
//
//	bus, err := pubsub.Config{Trace: otel.Trace(provider)}.Open(ctx, url)
//
// A packet that was repaired is a span "fanfare repair", from when it was found missing to its repair, and what was
// given up a span "fanfare loss" with status Error. Nothing is kept between them, so that memory is bounded whatever is
// lost. Where much is, sample: sdktrace.TraceIDRatioBased(0.01).
package otel

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/fanfaremq/fanfare/contrib/otel"

// Names of attributes. Those of messaging are OpenTelemetry's conventions.
const (
	Group     = attribute.Key("fanfare.group")     // address of the multicast group
	Publisher = attribute.Key("fanfare.publisher") // its id, in hexadecimal
	Name      = attribute.Key("fanfare.publisher.name")
	Epoch     = attribute.Key("fanfare.publisher.epoch")
	First     = attribute.Key("fanfare.sequence") // of the first packet
	Packets   = attribute.Key("fanfare.packets")  // how many
	Cause     = attribute.Key("fanfare.cause")    // label of a events.Cause
)

// Trace returns what makes spans with a tracer of provider. It is called by the bus's own
// goroutine: span processors must not block (a batch processor does not).
func Trace(provider trace.TracerProvider) *pubsub.Trace {
	t := provider.Tracer(Scope, trace.WithInstrumentationAttributes(attribute.String("messaging.system", "fanfare")))
	return &pubsub.Trace{
		Repaired: func(x pubsub.TraceLoss) {
			end := time.Now()
			_, span := t.Start(context.Background(), "fanfare repair", trace.WithTimestamp(end.Add(-x.Took)), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes(&x)...))
			span.End(trace.WithTimestamp(end))
		},
		Lost: func(x pubsub.TraceLoss) {
			_, span := t.Start(context.Background(), "fanfare loss", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(append(attributes(&x), Cause.String(x.Cause.Label()))...))
			span.SetStatus(codes.Error, fmt.Sprintf("%d packets lost permanently: %v", x.Packets, x.Cause))
			span.End()
		},
	}
}

func attributes(x *pubsub.TraceLoss) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("messaging.system", "fanfare"), Group.String(x.Group), Publisher.String(x.Publisher.String()),
		Epoch.String(fmt.Sprint(x.Epoch)), First.String(fmt.Sprint(x.First)), Packets.String(fmt.Sprint(x.Packets)),
	}
	if x.Name != "" {
		all = append(all, Name.String(x.Name))
	}
	return all
}
