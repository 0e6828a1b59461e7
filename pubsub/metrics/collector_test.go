package metrics_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// fixed is a Source with constant statistics.
type fixed struct{ st stats.Bus }

func (f fixed) Stats() stats.Bus { return f.st }

// number sets every counter of v and of its nested structs to a different value, and records the counter of each
// value in names.
func number(v reflect.Value, path string, next *uint64, names map[uint64]string) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+"."+v.Type().Field(i).Name
		switch f.Kind() {
		case reflect.Struct:
			if f.Type() != reflect.TypeFor[time.Time]() && f.Type() != reflect.TypeFor[stats.Distribution]() {
				number(f, name, next, names)
			}
		case reflect.Uint64:
			*next++
			f.SetUint(*next)
			names[*next] = name
		}
	}
}

// Every counter of the statistics is a metric, and names follow the conventions of Prometheus.
func TestEveryCounter(t *testing.T) {
	var st stats.Bus
	names := make(map[uint64]string)
	next := uint64(1_000_000)
	st.Groups = make([]stats.Group, 1)
	st.Publications = make([]stats.Publication, 1)
	st.Groups[0].Address, st.Publications[0].Address = "239.20.0.1:7400", "239.20.0.2:7400"
	number(reflect.ValueOf(&st).Elem(), "Bus", &next, names)
	number(reflect.ValueOf(&st.Groups[0]).Elem(), "Group", &next, names)
	number(reflect.ValueOf(&st.Publications[0]).Elem(), "Publication", &next, names)
	st.Groups[0].Publishers, st.Publications[0].Subscribers = make([]stats.Publisher, 1), make([]stats.Subscriber, 1)
	number(reflect.ValueOf(&st.Groups[0].Publishers[0]).Elem(), "Publisher", &next, names)
	number(reflect.ValueOf(&st.Publications[0].Subscribers[0]).Elem(), "Subscriber", &next, names)
	for value, name := range names { // except ids and fields that are no counters
		if name == "Publisher.Epoch" || name == "Publisher.ID" || name == "Subscriber.ID" || name == "Subscriber.Room" {
			delete(names, value)
		}
	}

	st.Legs = make([]stats.Leg, 1)
	number(reflect.ValueOf(&st.Legs[0]).Elem(), "Leg", &next, names)
	for value, name := range names {
		if strings.HasPrefix(name, "Leg.Transport.") {
			delete(names, value) // only the sum of all legs is a metric
		}
	}

	st.Lost = []stats.Loss{{Cause: events.CauseGone}, {Cause: events.CauseReleased}}
	for i := range st.Lost {
		number(reflect.ValueOf(&st.Lost[i]).Elem(), "Loss", &next, names)
	}

	c := metrics.NewCollector(fixed{st})
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[uint64]string)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			shown[uint64(m.GetCounter().GetValue()+m.GetGauge().GetValue())] = f.GetName()
		}
	}
	for value, name := range names {
		if shown[value] == "" {
			t.Errorf("%s is in no metric: add it to names.go", name)
		}
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
}

// The metrics of two buses show their traffic.
func TestMetricsOfBuses(t *testing.T) {
	url := "mem://" + t.Name()
	a, err := pubsub.Config{Logger: slog.New(slog.DiscardHandler)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := pubsub.Config{Logger: slog.New(slog.DiscardHandler)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	sub, err := b.Subscribe("x")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := a.Publisher("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	const n = 10
	for range n {
		if err := pub.Publish(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	for name, bus := range map[string]*pubsub.Bus{"a": a, "b": b} {
		prometheus.WrapRegistererWith(prometheus.Labels{"bus": name}, registry).MustRegister(metrics.NewCollector(bus))
	}
	group := a.Stats().Publications[0].Address
	want := fmt.Sprintf(`
# HELP fanfare_publish_messages_total Messages published.
# TYPE fanfare_publish_messages_total counter
fanfare_publish_messages_total{bus="a",group=%q} %d
`, group, n)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "fanfare_publish_messages_total"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "fanfare_receive_packets_total" })
	if i < 0 || families[i].GetMetric()[0].GetCounter().GetValue() == 0 {
		t.Error("no metric of received packets")
	}
	// A closed bus still has metrics.
	a.Close()
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}
