package top

import (
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// scene returns two observations, a second apart, of: a publisher of two topics, a subscriber with
// losses and a leg down, one that reads nothing, and a process that does not answer.
func scene() (before, now Observation) { return sceneAt(0), sceneAt(1) }

func sceneAt(second uint64) Observation {
	at := noon.Add(time.Duration(second) * time.Second)
	process := func(pid int, program string, b inspect.Bus) inspect.Seen {
		b.Since, b.Epoch = noon.Add(-time.Hour), 7
		return inspect.Seen{Socket: "/run/" + program, Snapshot: &inspect.Snapshot{
			Version: 1, Time: at, Process: inspect.Process{PID: pid, Program: program, Host: "trade1"}, Host: inspect.Host{ReceiveBufferMax: 212992}, Buses: []inspect.Bus{b},
		}}
	}
	const group = "239.20.0.7:7400"
	udp := inspect.Fabric{Transport: "udp", Groups: 16, PacketSize: 1472, GSO: true, Buffers: []inspect.Buffers{{ReceiveAsked: 8 << 20, ReceiveGranted: 212992}}}
	prices := inspect.Bus{
		Identity: inspect.Identity{ID: "00000000000000aa", Name: "prices", ShownAs: "prices", URLs: []string{"udp://?iface=eth0"}}, Fabric: udp,
		Publications: []inspect.Publication{{Address: group, Blocked: "flow control", Counters: inspect.Counters{
			"messages_sent": 1e6 + 50000*second, "packets_sent": 1e5 + 2500*second, "bytes_sent": 1e8 + 3e6*second, "repairs_sent": 10 + 25*second, "naks": 5 + 4*second,
		}, Subscribers: []inspect.Subscriber{
			{ID: "1", Name: "book", Address: "10.0.0.3:9000", Behind: 12, Room: 5000, Heard: 0.1},
			{ID: "2", Name: "risk", Tag: "slow", Address: "10.0.0.4:9000", Behind: 6500, Heard: 0.2, Holds: true, HeldFor: 11 + float64(second)},
			{ID: "3", Name: "gone", Address: "10.0.0.5:9000", Behind: 99, Room: 1, Heard: 4 + float64(second)},
		}}},
		Topics: []inspect.Topic{{Name: "md.xnas.AAPL", Group: group, Messages: 900000 + 49000*second, Subscribers: 3}, {Name: "md.xnas.MSFT", Group: group, Messages: 100000 + 1000*second}},
		Events: []inspect.Event{{Sequence: 1, Time: noon.Add(-10 * time.Second), Kind: "publisher_stalled", Name: "risk", Text: "publisher stalled: risk has held it up for 2s and is 6500 packets behind (group 239.20.0.7:7400)"},
			{Sequence: 2, Time: noon.Add(-20 * time.Minute), Kind: "publisher_stalled", Name: "book", Text: "publisher stalled: book has held it up for 1s and is 700 packets behind (group 239.20.0.7:7400)"}},
	}
	book := inspect.Bus{
		Identity: inspect.Identity{ID: "00000000000000bb", Name: "book", ShownAs: "book", URLs: []string{"udp://?iface=eth0", "udp://?iface=eth1"}}, Fabric: udp,
		Counters: inspect.Counters{"receive_overflow": 100 + 40*second},
		Groups: []inspect.Group{
			{Address: group, Joined: true, Topics: 1, Counters: inspect.Counters{"packets": 90000 + 2400*second, "bytes": 9e7 + 2e6*second, "repaired": 200 + 20*second, "missing": 210 + 45*second, "late": 5 * second, "lost": 3},
				Streams: []inspect.Stream{{Publisher: "00000000000000aa", Name: "prices", Epoch: 7, Packets: 90000 + 2400*second, Repaired: 200 + 20*second, Lost: 3, Missing: 5}}},
			{Address: "239.20.0.8:7400", Joined: true},
		},
		Subscriptions: []inspect.Subscription{
			{Number: 1, Topics: []string{"md.xnas.AAPL"}, Policy: "auto", From: "live", Handler: true, Messages: 800000 + 48000*second, Lost: []stats.CauseCount{{Cause: "gone", Gaps: 1, Messages: 60}},
				Publishers: []inspect.SubscriptionFeed{{Publisher: "00000000000000aa", Name: "prices", Epoch: 7, Group: group, Relevant: true}}},
			{Number: 2, Topics: []string{"md.>", "news.a", "news.b", "news.c"}, TopicsLeftOut: 3, Policy: "latest", From: "window", Messages: 10, Pending: 700,
				Publishers: []inspect.SubscriptionFeed{{Publisher: "00000000000000aa", Name: "prices", Epoch: 7, Group: group, Lag: 700, Relevant: true, Unread: 2.5}}},
		},
		Causes:   []stats.CauseCount{{Cause: "socket_overflow", Dropped: 100 + 40*second}, {Cause: "filtered", Dropped: 5000 + 1000*second}, {Cause: "gone", Lost: 3, Gaps: 1, Messages: 60}},
		Delivery: inspect.Latency{Count: 9000, P50: 48, P90: 110, P99: 640, Max: 26000},
		Repair:   inspect.Latency{Count: 220, P50: 130, P90: 400, P99: 1200, Max: 25000},
		Legs: []inspect.Leg{
			{URL: "udp://?iface=eth0", Up: true, Counters: inspect.Counters{"packets": 90000 + 2400*second, "lost": 10, "filled": 8}},
			{URL: "udp://?iface=eth1", Silent: 1, Skew: 55, Counters: inspect.Counters{"packets": 100}},
		},
		Events: []inspect.Event{
			{Sequence: 1, Time: noon.Add(-time.Hour), Kind: "publisher_up", Text: "publisher up: prices"},
			{Sequence: 3, Time: noon.Add(-9 * time.Minute), Kind: "packets_dropped", Cause: "socket_overflow", Text: "packets dropped: 64 so far, cause socket_overflow"},
			{Sequence: 4, Time: noon.Add(-8 * time.Minute), Kind: "packets_dropped", Cause: "injected", Text: "packets dropped: 1 so far, cause injected"},
			{Sequence: 5, Time: noon.Add(-7 * time.Minute), Kind: "packets_dropped", Cause: "socket_overflow", Text: "packets dropped: 128 so far, cause socket_overflow"},
			{Sequence: 2, Time: noon.Add(-3 * time.Second), Kind: "leg_down", Text: "leg down: udp://?iface=eth1", Leg: "udp://?iface=eth1"},
		},
	}
	stuck := inspect.Bus{Identity: inspect.Identity{ID: "00000000000000cc", ShownAs: "trade1/30", URLs: []string{"udp://"}}, Incomplete: "the bus's own goroutine is busy",
		Subscriptions: []inspect.Subscription{{Number: 1, Topics: []string{"evil\x1b[2J"}, Policy: "auto", From: "live", Ended: "evicted"}}}
	return Observation{at, []inspect.Seen{
		process(10, "feed", prices), process(20, "orderbook", book), process(30, "stuck.exe", stuck), {Socket: "/run/deaf.sock", Err: errors.New("i/o timeout")},
	}}
}
