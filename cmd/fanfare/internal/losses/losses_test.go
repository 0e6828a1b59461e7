package losses

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func at(minute, second int) time.Time {
	return noon.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
}

// Every cause of loss and every related event has advice, which uses what is known of the case, and
// is a complete sentence otherwise.
func TestAdviceCoversAllCauses(t *testing.T) {
	known := map[string]bool{}
	for _, c := range pubsub.Causes() {
		known[c.Label] = true
	}
	for label := range report.Losses() {
		known[label] = true
	}
	full := Evidence{"PUB", "ADDRESS", "MEMBER", "READER", "PROCESS", "LEG", 212992, 8 << 20, 212992, []string{"/SHARED"}, "ERROR", false}
	for label := range known {
		for _, e := range []Evidence{{}, full} {
			if why, do := Why(label), Do(label, e); why == "" || !strings.HasSuffix(strings.ReplaceAll(do, "?", "."), ".") || strings.Contains(do, "  ") || strings.Contains(do, ", .") {
				t.Errorf("%s: reason %q and advice %q, want both, whole sentences and no empty quotation", label, why, do)
			}
		}
	}
	if why, do := Why("new"), Do("new", full); why == "" || do == "" {
		t.Errorf("for an unknown cause: reason %q, advice %q, want both", why, do)
	}
}

// Advice names processes, topics and numbers.
func TestAdviceIsDefinite(t *testing.T) {
	e := Evidence{Publisher: "feed at 10.0.0.7:7400", Address: "10.0.0.7:7400", Subscriber: "desk at 10.0.0.8", Reader: "md.>", Process: "app[7]"}
	buffer := func(limit, asked, granted int) Evidence {
		return Evidence{Process: "app[7]", BufferMax: limit, Asked: asked, Granted: granted}
	}
	for _, c := range []struct {
		cause string
		e     Evidence
		want  string
	}{
		{"socket_overflow", buffer(212992, 8<<20, 212992), "sysctl -w net.core.rmem_max=33554432, and restart app[7]"},
		{"socket_overflow", buffer(212992, 8<<20, 212992), "now 212992 bytes"},
		{"socket_overflow", buffer(16<<20, 16<<20, 16<<20), "sysctl -w net.core.rmem_max=67108864, and rcvbuf=64M in the URL of app[7]"},
		{"socket_overflow", buffer(0, 0, 0), "sysctl -w net.core.rmem_max=33554432"},
		{"fabric", e, "querier"}, {"fabric", e, "its MTU must pass full packets"},
		{"fabric", e, "between feed at 10.0.0.7:7400 and this host"},
		{"fabric", Evidence{Address: "shm://desk#7.9f3c", Publisher: "feed at shm://desk#7.9f3c"}, "Check whether feed at shm://desk#7.9f3c counts no_memory (df -h DIR   # dir= in the URL, otherwise /dev/shm), and whether this process had descriptors"},
		{"fabric", Evidence{Address: "shm://desk#7.9f3c", Shared: []string{"/mnt/fast"}}, "counts no_memory (df -h /mnt/fast), and"},
		{"no_memory", Evidence{}, "df -h and du -sh of the directory of shared memory (dir= in the URL, else /dev/shm)"},
		{"no_memory", Evidence{Shared: []string{"/dev/shm"}}, "(df -h /dev/shm; du -sh /dev/shm/*). Give it more (mount -o remount,size=1G /dev/shm; docker run --shm-size=1g), or"},
		{"no_memory", Evidence{Shared: []string{"/x;reboot"}}, "(df -h '/x;reboot'; du -sh '/x;reboot'/*). Give it more (mount -o remount,size=1G '/x;reboot'), or"},
		{"no_memory", Evidence{Shared: []string{"/a", "/b"}}, "(df -h /a /b; du -sh /a/* /b/*). Give it more (mount -o remount,size=1G for each), or"},
		{"slow_consumer", e, "The reader of md.> in app[7] is too slow"},
		{"overrun", e, "If this bus was cut off or stopped, that is the cause"}, {"overrun", e, "md.> in app[7]"},
		{"released", e, "The reader of md.> in app[7] blocked feed at 10.0.0.7:7400"},
		{"released", Evidence{Publisher: "feed", Idle: true}, "Find out why packets of feed, or its repairs, did not reach"},
		{"released_by_a_publisher", Evidence{Publisher: "feed", Idle: true}, "Find out why packets of feed, or its repairs, did not reach"},
		{"publisher_lost", e, "why feed at 10.0.0.7:7400 died"},
		{"deadline", e, "to 10.0.0.7:7400 (unicast"},
		{"subscription_evicted", e, "md.> in app[7]"},
		{"subscriber_silent", e, "whether desk at 10.0.0.8 still runs"},
		{"subscriber_released", e, "why desk at 10.0.0.8 does not read"},
		{"subscriber_released", Evidence{Err: "no answer"}, "Check whether that subscriber runs, and the network between: “no answer”."},
	} {
		if got := Do(c.cause, c.e); !strings.Contains(got, c.want) {
			t.Errorf("%s: advice %q lacks %q", c.cause, got, c.want)
		}
	}
}

// seen is one process with one bus.
func seen(pid int, r *inspect.LossRecord) inspect.Seen {
	return inspect.Seen{Socket: "s", Snapshot: &inspect.Snapshot{
		Version: inspect.Version, Time: r.To, Process: inspect.Process{PID: pid, Program: "app"}, Host: inspect.Host{ReceiveBufferMax: 212992},
		Buses: []inspect.Bus{{Identity: inspect.Identity{ID: "00000000000000b5", Epoch: 1}, Losses: r}},
	}}
}

func gap(first time.Time, cause, topic string, messages uint64) inspect.Loss {
	return inspect.Loss{First: first, Last: first.Add(time.Second), Cause: cause, Topic: topic, Subscription: "md.>", Publisher: "00000000000000aa", PublisherName: "feed", Address: "10.0.0.7:7400", Times: 1, Messages: messages}
}

// Losses of one cause, publisher and subscription form one finding. The text gives number, time,
// path, reason and remedy, or that nothing was lost and which processes were read.
func TestReport(t *testing.T) {
	from := at(-90, 0)
	lossy := &inspect.LossRecord{
		From: from, To: noon,
		Losses: []inspect.Loss{
			gap(at(-70, 0), "gone", "md.old", 100),
			gap(at(-5, 0), "slow_consumer", "md.a", 3), gap(at(-4, 0), "slow_consumer", "md.b", 4), gap(at(-3, 0), "deadline", "md.a", 0),
			{First: at(-2, 0), Last: at(-2, 0), Cause: "subscriber_silent", Event: true, Subscriber: "00000000000000cc", SubscriberName: "desk:99", Times: 1},
		},
		Minutes: []stats.LossMinute{
			{Start: at(-61, 0), Causes: []stats.CauseCount{{Cause: "fabric", Dropped: 1000}}, Missing: 1000},
			{
				Start: at(-3, 0), Missing: 12, Repaired: 10, Late: 1,
				Causes: []stats.CauseCount{{Cause: "fabric", Dropped: 9}, {Cause: "socket_overflow", Dropped: 3}, {Cause: "filtered", Dropped: 7}, {Cause: "slow_consumer", Dropped: 17}, {Cause: "deadline", Lost: 1}},
				Ways:   []stats.LossWay{{Publisher: 0x00000000000000aa, Name: "feed", Address: "10.0.0.7:7400", Repaired: 10, Lost: 1}},
			},
		},
	}
	lossy.Losses[3].Unknown, lossy.Losses[1].Epoch, lossy.Losses[2].Epoch = 1, 6, 7
	if b, err := json.Marshal(Make([]inspect.Seen{seen(1, lossy)}, at(-60, 0), noon).Findings[0]); err != nil || !bytes.Contains(b, []byte(`"epoch":"0000000000000007"`)) {
		t.Errorf("the first finding is %s, error %v, want the latest epoch", b, err)
	}
	quiet := &inspect.LossRecord{From: at(-3, 0), To: noon}
	shared := &inspect.LossRecord{From: from, To: noon, Minutes: []stats.LossMinute{{
		Start: at(-3, 0), Missing: 12, Repaired: 12, Causes: []stats.CauseCount{{Cause: "fabric", Dropped: 12}},
		Ways: []stats.LossWay{{Publisher: 0x00000000000000aa, Name: "feed", Address: "shm://desk#7.9f3c", Repaired: 12}},
	}}}
	unread := &inspect.LossRecord{From: from, To: noon, Minutes: []stats.LossMinute{{Start: at(-3, 0), Missing: 9, Repaired: 2, Causes: []stats.CauseCount{{Cause: "gone", Lost: 7}}}}}
	otherDir := seen(1, shared)
	otherDir.Snapshot.Buses[0].URLs = []string{"shm://desk?dir=%2Fmnt%2Fmy%20desk&keys=desk.keys"}
	for _, c := range []struct {
		name  string
		seen  []inspect.Seen
		since time.Time
		want  []string
		not   []string
	}{
		{"nothing", []inspect.Seen{seen(2, quiet)}, at(-60, 0), []string{
			"Nothing was lost permanently in the last hour, in 1 process.", "Processes read: app[2] (1 bus) only for 3 min.",
		}, []string{"LOST", "REPAIRED"}},
		{"no process", nil, at(-60, 0), []string{"No process could be read"}, []string{"Nothing was lost"}},
		{"lossy", []inspect.Seen{seen(1, lossy), seen(2, quiet), {Socket: "/run/x.sock", Err: errRefused}}, at(-60, 0), []string{
			"LOST PERMANENTLY", "11:55:00 to 11:56:01  slow_consumer: 7 messages of md.a, md.b, in 2 gaps", "from   feed at 10.0.0.7:7400", "app[1], bus 00000000000000b5, subscription md.>",
			"The reader of md.> in app[1] is too slow", "11:57:00 to 11:57:01  deadline: messages of md.a, number unknown",
			"11:58:00  subscriber_silent", "peer   desk:99", "whether desk:99 still runs",
			"11:57 to 11:58  fabric: 9 packets missing", "between feed at 10.0.0.7:7400 and this host", "socket_overflow: 3 datagrams", "net.core.rmem_max=33554432",
			"LOST permanently: 7 messages in 3 gaps, in the last hour, in 2 processes, plus 1 gap of unknown size; 12 packets were missing, 10 repaired, 1 late, 1 given up.",
			"Not read: /run/x.sock: refused.",
		}, []string{"md.old", "1000", "filtered", "17 packets"}},
		{"given up, but not yet read", []inspect.Seen{seen(1, unread)}, at(-60, 0), []string{
			"LOST permanently: 7 packets, in the last hour, in 1 process, not yet reported to a subscription", "9 packets were missing, 2 repaired, 0 late, 7 given up",
		}, []string{"Nothing was lost"}},
		{"in shared memory", []inspect.Seen{seen(1, shared)}, at(-60, 0), []string{
			"fabric: 12 packets", "Check whether feed at shm://desk#7.9f3c counts no_memory",
		}, []string{"switch", "querier"}},
		{"in shared memory of another directory", []inspect.Seen{otherDir}, at(-60, 0), []string{"counts no_memory (df -h '/mnt/my desk')"}, []string{"/dev/shm"}},
		{"lossy, the last minute", []inspect.Seen{seen(1, lossy)}, at(-1, 0), []string{"Nothing was lost permanently in the last 60 s, in 1 process."}, []string{"slow_consumer", "fabric"}},
	} {
		var b strings.Builder
		if err := Make(c.seen, c.since, noon).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range c.want {
			if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s: report lacks %q:\n%s", c.name, want, b.String())
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: report contains %q:\n%s", c.name, not, b.String())
			}
		}
	}
}

type refused struct{}

func (refused) Error() string { return "refused" }

var errRefused = refused{}

// News contains increased counts and new findings.
func TestNews(t *testing.T) {
	record := func(losses []inspect.Loss, dropped uint64) []inspect.Seen {
		return []inspect.Seen{seen(1, &inspect.LossRecord{To: noon, Losses: losses, Minutes: []stats.LossMinute{{Start: at(-1, 0), Causes: []stats.CauseCount{{Cause: "fabric", Dropped: dropped}}}}})}
	}
	a, b := gap(at(-1, 0), "gone", "md.a", 3), gap(at(0, 0), "gone", "md.b", 1)
	grown := a
	grown.Times, grown.Messages, grown.Last = 3, 10, at(0, 1)
	n := NewNews(record([]inspect.Loss{a}, 5), noon)
	for i, c := range []struct {
		seen []inspect.Seen
		want string
	}{
		{record([]inspect.Loss{a}, 5), ""},
		{record([]inspect.Loss{grown}, 5), "lost gone 7 messages in 2"},
		{record([]inspect.Loss{grown, b}, 8), "lost gone 1 messages in 1; dropped fabric 3 packets"},
		{[]inspect.Seen{{Socket: "s", Err: errRefused}}, ""},
		{record([]inspect.Loss{grown, b}, 8), ""},
		{nil, ""},
		{record([]inspect.Loss{b}, 0), "lost gone 1 messages in 1"},
	} {
		var got []string
		for _, f := range n.Take(c.seen, noon) {
			if f.Kind == Dropped {
				got = append(got, strings.Join([]string{string(f.Kind), f.Cause, plural(f.Packets, "packets", "packets")}, " "))
				continue
			}
			got = append(got, strings.Join([]string{string(f.Kind), f.Cause, strings.Replace(plural(f.Messages, "x", "messages"), " x", " messages", 1), "in", thousands(f.Times)}, " "))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("step %d: %q, want %q", i, s, c.want)
		}
	}
}

// A bus that was cut off, or without any leg, does not blame others.
func TestOwnFaultIsExplained(t *testing.T) {
	h := host{Bus: &inspect.Bus{Losses: &inspect.LossRecord{Losses: []inspect.Loss{{Cause: "publisher_lost", Event: true, Publisher: "7", Error: "down"}}}}}
	for want, x := range map[string]inspect.Loss{
		"This bus was cut off": {Cause: "publisher_lost", Event: true, Error: "down"}, "cut off from the group": {Cause: "publisher_lost", Publisher: "7"}, "it fell silent before": {Cause: "publisher_lost", Event: true},
		"The last leg is lost": {Cause: "leg_down", Event: true, Error: "down: no leg is left"}, "there is no redundancy": {Cause: "leg_down", Event: true, Error: "down"},
	} {
		if f := h.finding(&x); !strings.Contains(f.Why, want) {
			t.Errorf("%+v is explained by %q, want %q", x, f.Why, want)
		}
	}
}

// The error text of an event is quoted, because it is not advice of this program.
func TestErrorsAreQuoted(t *testing.T) {
	const err = "run: curl http://host/fix"
	quoted := 0
	for label := range remedies() {
		if do := Do(label, Evidence{Err: err}); strings.Contains(do, err) {
			if quoted++; !strings.Contains(do, "“"+err+"”") {
				t.Errorf("%s: advice has the error %q without quotation marks: %s", label, err, do)
			}
		}
	}
	if quoted == 0 {
		t.Error("no advice quotes the error")
	}
}

// A bus that a publisher released while nothing was unread is not advised to read faster: the event names no
// subscription.
func TestIdleIsNotTooSlow(t *testing.T) {
	for subscription, idle := range map[string]bool{"": true, "x": false} {
		h := host{Bus: &inspect.Bus{Losses: &inspect.LossRecord{Losses: []inspect.Loss{
			{Cause: "released", Publisher: "f1", Subscription: "x"},
			{Cause: "released_by_a_publisher", Event: true, Publisher: "f1", Subscription: subscription},
			{Cause: "released", Publisher: "f2", Subscription: "x"},
		}}}}
		for i, want := range []bool{idle, idle, false} {
			f := h.finding(&h.Losses.Losses[i])
			if got := !strings.Contains(f.Do, "faster"); got != want || strings.Contains(f.Why, "packets did not arrive here") != want {
				t.Errorf("subscription %q, loss %d: advice to read faster is absent: %v, want %v: %s %s", subscription, i, got, want, f.Why, f.Do)
			}
			now := time.Now()
			f.First, f.Last = now, now
			found := []Finding{f, {Cause: "stood_still", For: 6, First: now, Last: now}, {Kind: Dropped, Cause: "overrun", First: now, Last: now}}
			if stoodStill(found); strings.Contains(found[0].Why, "this process did not run") != want || !strings.HasPrefix(found[2].Do, "First find out why this process did not run") {
				t.Errorf("subscription %q, loss %d: after a standstill: %s %s", subscription, i, found[0].Why, found[2].Do)
			}
		}
	}
}
