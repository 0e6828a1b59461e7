package metrics

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The number of labels is bounded, and a name keeps its label.
func TestLabels(t *testing.T) {
	var n labels
	var many []string
	for i := range MaxNames {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	label := n.assign(many)
	if label("m00") != "m00" || label(many[MaxNames-1]) != many[MaxNames-1] {
		t.Error("MaxNames names do not have labels of their own")
	}
	label = n.assign(append(many[:MaxNames:MaxNames], "a", "b"))
	if label("a") != Other || label("b") != Other || label("m63") != "m63" {
		t.Error("a later name has taken a label")
	}
	label = n.assign(append(many[1:MaxNames:MaxNames], "b", "a"))
	if label("a") != "a" || label("b") != Other || len(n.own) != MaxNames {
		t.Error("a free label was not given to the next name")
	}
}

// one is a Source with constant statistics.
type one struct{ st stats.Bus }

func (o *one) Stats() stats.Bus { return o.st }

// gathered returns what a collector exports, by metric and by the value of its label.
func gathered(t *testing.T, st stats.Bus) map[string]map[string]*dto.Metric {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(&one{st}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]map[string]*dto.Metric)
	for _, f := range families {
		series := make(map[string]*dto.Metric)
		for _, m := range f.GetMetric() {
			l := ""
			if len(m.GetLabel()) > 0 {
				l = m.GetLabel()[0].GetValue()
			}
			series[l] = m
		}
		all[f.GetName()] = series
	}
	return all
}

func value(m *dto.Metric) float64 {
	switch {
	case m == nil:
		return math.NaN()
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	}
	return m.GetGauge().GetValue()
}

// The metrics of a publisher or subscriber combine all its groups.
func TestNamesOfAllGroups(t *testing.T) {
	var st stats.Bus
	for i := range uint64(2) {
		st.Groups = append(st.Groups, stats.Group{Address: fmt.Sprint(i), Publishers: []stats.Publisher{{ID: 7, Name: "feed", Packets: 10, Lost: i, Missing: 2}, {ID: 9, Packets: 1}}})
		st.Publications = append(st.Publications, stats.Publication{Address: fmt.Sprint(i), Subscribers: []stats.Subscriber{
			{ID: 1, Name: "slow", Behind: 5 * i, Holds: i == 0}, {ID: 2, LastHeard: time.Second},
		}})
	}
	all := gathered(t, st)
	for _, c := range []struct {
		metric, label string
		want          float64
	}{
		{"fanfare_publisher_packets_total", "feed", 20}, {"fanfare_publisher_lost_packets_total", "feed", 1}, {"fanfare_publisher_missing_packets", "feed", 4},
		{"fanfare_publisher_packets_total", "0000000000000009", 2},
		{"fanfare_subscriber_behind_packets", "slow", 5}, {"fanfare_subscriber_holds", "slow", 1}, {"fanfare_subscriber_silent_seconds", "0000000000000002", 1},
	} {
		if got := value(all[c.metric][c.label]); got != c.want {
			t.Errorf("%s of %s is %v, want %v", c.metric, c.label, got, c.want)
		}
	}
	if n := len(all["fanfare_publisher_packets_total"]); n != 2 {
		t.Errorf("%d publishers, want 2", n)
	}
}

// Ten thousand publishers, subscribers and groups have at most MaxNames+1 series each, and these include the values
// of all.
func TestTenThousandNames(t *testing.T) {
	const many = 10_000
	var st stats.Bus
	for i := range uint64(many) {
		st.Groups = append(st.Groups, stats.Group{
			Address: fmt.Sprintf("group-%05d", i), Joined: i != many-1, Streams: 1, Topics: 1,
			Publishers: []stats.Publisher{{ID: pubsub.PublisherID(i + 1), Name: fmt.Sprintf("feed-%05d", i), Packets: 3}},
			Receiver:   stats.Receiver{ReceiverPackets: stats.ReceiverPackets{Packets: 5}},
		})
		st.Publications = append(st.Publications, stats.Publication{
			Address: fmt.Sprintf("group-%05d", i), RTT: time.Duration(i), Sender: stats.Sender{SenderMessages: stats.SenderMessages{MessagesSent: 7}},
			Subscribers: []stats.Subscriber{{ID: events.ID(i + 1), Name: fmt.Sprintf("reader-%05d", i), Behind: i}},
		})
	}
	all := gathered(t, st)
	for name, series := range all {
		if len(series) > MaxNames+1 {
			t.Errorf("%s has %d series, want at most %d", name, len(series), MaxNames+1)
		}
	}
	for metric, want := range map[string]float64{"fanfare_publisher_packets_total": 3 * many, "fanfare_receive_packets_total": 5 * many, "fanfare_publish_messages_total": 7 * many, "fanfare_receive_streams": many} {
		sum := 0.0
		for _, m := range all[metric] {
			sum += value(m)
		}
		if len(all[metric]) != MaxNames+1 || sum != want {
			t.Errorf("%d series of %s are %v together, want %v", len(all[metric]), metric, sum, want)
		}
	}
	// Gauges of Other are the worst of the rest.
	for metric, want := range map[string]float64{"fanfare_subscriber_behind_packets": many - 1, "fanfare_receive_joined": 0, "fanfare_publish_rtt_seconds": time.Duration(many - 1).Seconds()} {
		if got := value(all[metric][Other]); got != want {
			t.Errorf("%s of the others is %v, want %v", metric, got, want)
		}
	}
}
