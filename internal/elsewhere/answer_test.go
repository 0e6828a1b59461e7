package elsewhere

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// answering serves text.
func answering(t *testing.T, text string) string {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
}

// readOne is the error that one place comes to, which names it.
func readOne(t *testing.T, ctx context.Context, addr string) error {
	t.Helper()
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "none"))
	seen, err := ReadAll(ctx, addr)
	if err != nil || len(seen) == 0 || !strings.HasPrefix(seen[0].Socket, addr) {
		t.Fatalf("%+v, %v", seen, err)
	}
	return seen[0].Err
}

// Whatever a server answers, so much of it is read and made of it, and no more.
func TestHostileAnswers(t *testing.T) {
	snapshot := func(buses string) string {
		return `{"socket":"s","snapshot":{"version":1,"process":{"pid":1},"buses":[` + buses + "]}}\n"
	}
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	for name, c := range map[string]struct{ answer, want string }{
		"huge":                    {snapshot(strings.Repeat(" ", maxBytes)), "more than 8 MiB"},
		"one huge name":           {snapshot(`{"name":"` + strings.Repeat("x", maxBytes) + `"}`), "more than 8 MiB"},
		"buses":                   {snapshot(many(maxBuses+1, "{}")), "more than 1024 buses"},
		"buses, in several lists": {snapshot(many(maxBuses, "{}") + `],"buses":[{}`), "more than 1024 buses"},
		"buses of many processes": {strings.Repeat(snapshot(many(maxBuses/4, "{}")), 5), "more than 1024 buses"},
		"buses, behind a name":    {snapshot(`{"name":"\\\"{"},` + many(maxBuses, "{}")), "more than 1024 buses"},
		"streams":                 {snapshot(`{"groups":[{"streams":[` + many(maxObjects, "{}") + "]}]}"), "more than 131072 objects"},
		"names":                   {snapshot(`{"events":[{"topics":[` + many(maxValues+2, `""`) + "]}]}"), "more than 1048576 values"},
		"counters":                {snapshot(`{"counters":{` + many(maxValues+2, `"":1`) + "}}"), "more than 1048576 values"},
		"a long error":            {`{"socket":"s","error":"` + strings.Repeat("é", 200) + `"}`, strings.Repeat("é", 150) + "…"},
		"processes":               {strings.Repeat("{}\n", maxProcesses+1), "more than 4096 processes"},
		"topics":                  {snapshot(`{"topics":[` + many(inspect.MaxTopics+1, "{}") + "]}"), "257 topics"},
		"a bucket that cannot be": {snapshot(`{"repair":{"buckets":[{"index":100000,"count":1}]}}`), "index 100000"},
		"a number that is none":   {snapshot(`{"no_publisher_s":1e999}`), "cannot be read"},
		"a process that is none":  {`{"snapshot":{"version":1,"process":{"pid":0}}}`, "process 0"},
		"as many as there may be": {snapshot(many(maxBuses, `{"name":"{\"{{"}`)), ""},
	} {
		err := readOne(t, t.Context(), answering(t, c.answer))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A process of another host always has a host beside its name, and that is a name of one: it cannot
// look like one of this host.
func TestHostOfProcesses(t *testing.T) {
	for host, want := range map[string]string{"trade2": "trade2", "trade-2.example.org": "trade-2.example.org", "": "", " ": "a:1", "tr\u200bade2": "a:1", "\u202eedart": "a:1"} {
		for addr, name := range map[string]string{"a:1": "a", ":1": ""} {
			x := seen{Snapshot: &inspect.Snapshot{Version: inspect.Version, Process: inspect.Process{PID: 7, Program: "feed", Host: host}}}
			got := x.from(addr, name).Snapshot.Process.At
			if w := cmp.Or(strings.Replace(want, "a:1", addr, 1), name, addr); got != w {
				t.Errorf("%q of %s is at %q, want %q", host, addr, got, w)
			}
		}
	}
}

// Nothing that is compressed is asked for, nor taken.
func TestCompressedAnswer(t *testing.T) {
	var accepts atomic.Value
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepts.Store(r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, "{}\n"+strings.Repeat(" ", 1<<20))
		z.Close()
	}))
	if err := readOne(t, t.Context(), addr); err == nil || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("%v", err)
	}
	if accepts.Load() != "" {
		t.Errorf("it asks for %q", accepts.Load())
	}
}

// A server that trickles holds nobody up for longer than who asks waits.
func TestTricklingAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ {
			io.WriteString(w, "{\"socket\":\"s\"}\n")
			http.NewResponseController(w).Flush()
			if i == 10 {
				cancel()
				<-r.Context().Done()
			}
		}
	}))
	if err := readOne(t, ctx, addr); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := decode(cancelled, []byte("{}\n"), "h:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v: it is decoded though nobody waits", all, err)
	}
}

// A host with many buses, each as full as a bus is, is within the bounds.
func TestLargeHost(t *testing.T) {
	var all []inspect.Seen
	for i := range 32 {
		b := inspect.Bus{Identity: inspect.Identity{ID: fmt.Sprintf("%016x", i), Name: "prices"}}
		for j := range inspect.MaxTopics {
			b.Topics = append(b.Topics, inspect.Topic{Name: fmt.Sprintf("market.data.equities.%d.%d", i, j), Group: "239.20.17.4:7400", Messages: 1e9, Subscribers: 12})
		}
		for j := range inspect.MaxSubscriptions {
			s := inspect.Subscription{Number: uint64(j), Topics: []string{fmt.Sprintf("market.data.equities.%d.>", j)}, Policy: "gap", From: "live", Messages: 1e9}
			s.Publishers = append(s.Publishers, inspect.SubscriptionFeed{Publisher: "0123456789abcdef", Name: "prices", Epoch: 1e15, Group: "239.20.17.4:7400", Window: 8192})
			b.Subscriptions = append(b.Subscriptions, s)
		}
		for j := range inspect.MaxEvents {
			b.Events = append(b.Events, inspect.Event{Sequence: uint64(j), Kind: "publisher_up", Text: "publisher prices, 10.0.0.5:40123, is heard in 239.20.17.4:7400", Group: "239.20.17.4:7400", Publisher: "0123456789abcdef", Name: "prices", Address: "10.0.0.5:40123"})
		}
		all = append(all, inspect.Seen{Socket: fmt.Sprint(i), Snapshot: &inspect.Snapshot{Version: inspect.Version, Process: inspect.Process{PID: i + 1}, Buses: []inspect.Bus{b}}})
	}
	addr := serve(t, Handler(func(context.Context) ([]inspect.Seen, error) { return all, nil }))
	resp, err := http.Get("http://" + addr + Path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || len(text) > maxBytes {
		t.Errorf("an answer %d of %d bytes, %d at most; %v", resp.StatusCode, len(text), maxBytes, err)
	}
	if err := countObjects(text); err != nil {
		t.Error(err)
	}
	seen, err := decode(t.Context(), text, addr) // which takes its time on a busy host: read would give up
	if err != nil || len(seen) != len(all) || seen[31].Err != nil {
		t.Errorf("%d processes, %v, %+v", len(seen), err, seen[0].Err)
	}
}
