package metrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
)

// The statistics of a bus for Prometheus. A registry is usually served over HTTP, by promhttp.HandlerFor.
func ExampleNewCollector() {
	bus, err := pubsub.Open(context.Background(), "mem://metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	if _, err := bus.Publisher("x"); err != nil {
		log.Fatal(err)
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(bus))

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "fanfare_publish_messages_total" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: fanfare_publish_messages_total 0
}
