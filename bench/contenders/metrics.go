package contenders

import (
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/metricserver"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
)

// serveMetrics serves the bus's metrics where the specification says so. Call
// what it returns at the end.
func serveMetrics(r *worker.Run, bus *pubsub.Bus) (stop func(), err error) {
	if r.Spec.Metrics == "" {
		return func() {}, nil
	}
	s, err := metricserver.Serve(r.Spec.Metrics, metrics.NewCollector(bus))
	if err != nil {
		return nil, err
	}
	r.MetricsAddress = s.Addr()
	return func() { s.Close() }, nil
}
