package cli

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Publishers on the network without a socket here are shown with their topics, sorted by messages,
// largest first; processes that were read are not shown twice.
func TestNetworkOnly(t *testing.T) {
	from := func(id, messages uint64, name, address string) pubsub.TopicPublisher {
		return pubsub.TopicPublisher{ID: pubsub.PublisherID(id), Name: name, Epoch: 3, Address: address, Messages: messages}
	}
	const group = "239.20.0.7:7400"
	list := &pubsub.TopicList{Err: errors.New("group 3 cannot be joined"), Topics: []pubsub.TopicInfo{
		{Name: "a", GroupAddress: group, Publishers: []pubsub.TopicPublisher{from(1, 10, "feed", "10.0.0.7:9000"), from(2, 7, "", "")}},
		{Name: "b", GroupAddress: group, Publishers: []pubsub.TopicPublisher{from(1, 30, "feed", "10.0.0.7:9000"), from(9, 5, "mine", "10.0.0.1:9000")}},
	}}
	for i := range inspect.MaxTopics {
		list.Topics = append(list.Topics, pubsub.TopicInfo{Name: fmt.Sprint(i), GroupAddress: "other", Publishers: []pubsub.TopicPublisher{from(1, 1, "feed", "10.0.0.7:9000")}})
	}
	asked := []inspect.Seen{{Err: errors.New("deaf")}, {Snapshot: &inspect.Snapshot{Process: inspect.Process{PID: 4}, Buses: []inspect.Bus{{
		Identity: inspect.Identity{ID: "0000000000000009", Epoch: 3}, Fabric: inspect.Fabric{Interfaces: []string{"eth0"}}, Publications: []inspect.Publication{{Address: group}},
	}}}}}
	began, now := time.Unix(1, 0), time.Unix(9, 0)
	all := networkOnly(list, asked, []string{"udp://"}, began, now)
	if len(all) != 3 {
		t.Fatalf("%d processes, want 3: %+v", len(all), all)
	}
	feed, nameless := all[0].Snapshot, all[1].Snapshot
	b := feed.Buses[0]
	if feed.Process.Name() != "10.0.0.7:9000" || !feed.Process.Heard() || !feed.Time.Equal(now) || b.Name != "feed" || b.ID != "0000000000000001" || b.Fabric.Interfaces[0] != "eth0" {
		t.Errorf("snapshot %+v, want 10.0.0.7:9000 at %v with the bus feed on eth0", feed, now)
	}
	if len(b.Topics) != inspect.MaxTopics || b.TopicsLeftOut != 2 || b.Topics[0] != (inspect.Topic{Name: "b", Group: group, Messages: 30}) || b.Topics[1].Messages != 10 {
		t.Errorf("%d topics and %d more, the first %+v, want %d and 2, the first b with 30 messages", len(b.Topics), b.TopicsLeftOut, b.Topics[:2], inspect.MaxTopics)
	}
	if len(b.Publications) != 2 || b.Publications[0].Counters["messages_sent"] != 40 || b.Publications[1].Counters["messages_sent"] != inspect.MaxTopics {
		t.Errorf("publications %+v, want 2 with 40 and %d messages", b.Publications, inspect.MaxTopics)
	}
	if nameless.Process.Name() != "an unknown address" || nameless.Buses[0].ShownAs != "0000000000000002" {
		t.Errorf(`snapshot %+v, want "an unknown address" with the bus 0000000000000002`, nameless)
	}
	if all[2].Err == nil || all[2].Socket != "udp://" {
		t.Errorf("the group that cannot be joined is not reported: %+v", all[2])
	}
}
