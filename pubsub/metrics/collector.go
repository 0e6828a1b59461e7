// Package metrics exports the counters of a bus to Prometheus:
//
//	prometheus.MustRegister(metrics.NewCollector(bus))
//
// Names begin with fanfare_; counters end with _total, and units are in the names (bytes, packets, messages,
// seconds). Metrics of one group, received or published, have its address as label group. Labels are bounded: see
// MaxNames. Histograms are native ones, and classic ones for scrapers that do not support these. Metrics of one leg
// of a bus with several have the label leg: 1 is the leg of the first URL.
//
// Permanent losses are in fanfare_gaps_total and fanfare_gap_messages_total; packets dropped, repaired afterwards or
// not, in fanfare_dropped_packets_total, by the label cause (pubsub.Causes has the meaning and the remedy of each).
// Alert on fanfare_gaps_total: a gap of unknown size has no messages. docs/operate has all metrics, rules for alerts
// and a dashboard.
//
// A scrape costs one Bus.Stats: it interrupts the bus's goroutine once, and adds no cost to messages.
package metrics

import (
	"math"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Source is what metrics are taken from: a *pubsub.Bus.
type Source interface{ Stats() stats.Bus }

// Collector is a prometheus.Collector of one bus.
type Collector struct {
	source Source

	mu                                            sync.Mutex
	publishers, subscribers, groups, publications labels // under mu
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns the collector of a bus. Several buses in one registry need a label each:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"bus": "orders"}, registry).MustRegister(…)
//
// It still works after the bus is closed, with constant values: unregister it then.
func NewCollector(bus Source) *Collector { return &Collector{source: bus} }

// metric is one metric, and how it is read from T.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
	// combine combines the values of several sources that share a label: by default the sum of counters and the maximum of
	// gauges.
	combine func(a, b float64) float64
}

const namespace = "fanfare"

func counter[T any](name, help string, value func(*T) float64, labels ...string) metric[T] {
	return metric[T]{prometheus.NewDesc(namespace+"_"+name+"_total", help, labels, nil), prometheus.CounterValue, value, added}
}

func gauge[T any](name, help string, value func(*T) float64, labels ...string) metric[T] {
	return metric[T]{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), prometheus.GaugeValue, value, math.Max}
}

// combining is the metric with another function to combine values.
func (m metric[T]) combining(combine func(a, b float64) float64) metric[T] {
	m.combine = combine
	return m
}

func added(a, b float64) float64 { return a + b }

func (m *metric[T]) collect(out chan<- prometheus.Metric, from *T, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(from), labels...)
}

// collectAll sends the combined value of all of from, which is not empty.
func (m *metric[T]) collectAll(out chan<- prometheus.Metric, from []*T, labels ...string) {
	v := m.value(from[0])
	for _, x := range from[1:] {
		v = m.combine(v, m.value(x))
	}
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for i := range busMetrics {
		out <- busMetrics[i].desc
	}
	for i := range publisherMetrics {
		out <- publisherMetrics[i].desc
	}
	for i := range subscriberMetrics {
		out <- subscriberMetrics[i].desc
	}
	for i := range lossMetrics {
		out <- lossMetrics[i].desc
	}
	for i := range histograms {
		if i == 0 || histograms[i].desc != histograms[i-1].desc {
			out <- histograms[i].desc
		}
	}
	out <- dropMetric.desc
	out <- lostMetric.desc
	out <- eventMetric.desc
	for i := range legMetrics {
		out <- legMetrics[i].desc
	}
	for i := range groupMetrics {
		out <- groupMetrics[i].desc
	}
	for i := range publicationMetrics {
		out <- publicationMetrics[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	st := c.source.Stats()
	for i := range busMetrics {
		busMetrics[i].collect(out, &st)
	}
	for c := range st.Lost {
		for i := range lossMetrics {
			lossMetrics[i].collect(out, &st.Lost[c], st.Lost[c].Cause.Label())
		}
	}
	for _, cause := range pubsub.Causes() {
		if n, ok := cause.Dropped(&st); ok {
			dropMetric.collect(out, &n, cause.Label)
		}
		if n, ok := cause.Lost(&st); ok {
			lostMetric.collect(out, &n, cause.Label)
		}
	}
	for i := range st.Events {
		eventMetric.collect(out, &st.Events[i], st.Events[i].Kind.Label())
	}
	for l := range st.Legs {
		for i := range legMetrics {
			legMetrics[i].collect(out, &st.Legs[l], strconv.Itoa(l+1))
		}
	}
	for i := range histograms {
		histograms[i].collect(out, &st.Distributions)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	collectNamed(out, groupMetrics, st.Groups, groupName, &c.groups)
	collectNamed(out, publicationMetrics, st.Publications, publicationName, &c.publications)
	collectNamed(out, publisherMetrics, publishers(&st), publisherName, &c.publishers)
	collectNamed(out, subscriberMetrics, subscribers(&st), subscriberName, &c.subscribers)
}
