// Package otel records repairs and losses as OpenTelemetry spans: an example of
// pubsub.Trace, in a module of its own, so that Fanfare does not depend on OpenTelemetry.
//
//	bus, err := pubsub.Config{Trace: otel.Trace(provider)}.Open(ctx, url)
//
// A repaired packet is a span "fanfare repair", from the detection of the loss to the repair. A permanent loss is a span
// "fanfare loss" with status Error. No state is kept between spans, so memory is bounded at any loss rate. With many
// losses, sample: sdktrace.TraceIDRatioBased(0.01).
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

// Names of attributes. The messaging attributes follow OpenTelemetry's conventions.
const (
	Group     = attribute.Key("fanfare.group")     // address of the multicast group
	Publisher = attribute.Key("fanfare.publisher") // id of the publisher, in hexadecimal
	Name      = attribute.Key("fanfare.publisher.name")
	Epoch     = attribute.Key("fanfare.publisher.epoch")
	First     = attribute.Key("fanfare.sequence") // sequence number of the first packet
	Packets   = attribute.Key("fanfare.packets")  // number of packets
	Cause     = attribute.Key("fanfare.cause")    // label of an events.Cause
)

// Trace returns a pubsub.Trace that creates spans with a tracer of provider. The bus calls it on
// its own goroutine: span processors must not block. A batch processor does not.
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
