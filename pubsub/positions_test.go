package pubsub

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

var restarts = flag.Int("restarts", 20, "restarts of publishers in TestResumeAcrossRestarts")

// process is a bus that is closed or killed.
type process struct {
	b  *Bus
	tr transport.Transport
}

func startProcess(t *testing.T, c Config, url string) *process {
	t.Helper()
	u, err := fabricurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := u.Open(quiet)
	if err != nil {
		t.Fatal(err)
	}
	c.Logger, c.Wait = quiet, WaitPark // in a synctest bubble time does not advance while a goroutine spins
	b, err := c.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{b, tr}
	t.Cleanup(func() {
		if p.b != nil {
			p.end(false)
		}
	})
	return p
}

// end closes the bus, or kills it: then it sends nothing more.
func (p *process) end(killed bool) {
	if killed {
		p.tr.Close()
	}
	p.b.Close()
	p.b, p.tr = nil, nil
}

// feed is a publisher that is restarted: each time with another epoch.
type feed struct {
	*process
	name   string
	topics []*Publisher
}

// run has the messages of one run of a feed: published, delivered and lost.
type run struct {
	published map[string]uint64
	next      map[string]uint64 // by topic: number after the last message delivered or in a gap
	open      map[string]uint64 // by topic: number from which on messages may be lost
	lost      bool              // PublisherLost, or a gap without a topic, was delivered
	killed    bool
}

// resumer is a subscriber that is restarted, with positions stored as JSON.
type resumer struct {
	t    *testing.T
	url  string
	seed uint64
	kept []byte
	runs map[events.Instance]*run
	gaps int
	open int
	got  int

	*process
	sub       *Subscription // or
	calls     *handlerCalls
	positions *Positions
}

func (r *resumer) begin() {
	r.seed++
	r.process = startProcess(r.t, Config{Faults: fmt.Sprint("loss=0.05,seed=", r.seed)}, r.url)
	r.positions = new(Positions)
	if err := json.Unmarshal(r.kept, r.positions); err != nil {
		r.t.Fatal(err)
	}
	options := []SubscribeOption{Topics("md.*"), From(r.positions), PublisherEvents()}
	if r.sub, r.calls = nil, nil; r.seed%2 == 0 {
		r.sub = subscribe(r.t, r.b, "x", options...)
		return
	}
	calls := new(handlerCalls)
	r.calls = calls
	if _, err := r.b.Handle("x", func(m Message, err error) {
		calls.Lock()
		defer calls.Unlock()
		m = m.Clone()
		calls.all = append(calls.all, func() { r.took(m, err) })
	}, options...); err != nil {
		r.t.Fatal(err)
	}
}

// handlerCalls are the calls of a handler, to be checked later.
type handlerCalls struct {
	sync.Mutex
	all []func()
}

// read reads for the duration d, and stores the positions.
func (r *resumer) read(d time.Duration) {
	if r.calls != nil {
		time.Sleep(d)
		r.calls.Lock()
		all := r.calls.all
		r.calls.all = nil
		r.calls.Unlock()
		for _, take := range all {
			take()
		}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		for {
			m, err := r.sub.Next(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			r.took(m, err)
		}
	}
	kept, err := json.Marshal(r.positions)
	if err != nil {
		r.t.Fatal(err)
	}
	r.kept = kept
}

// took checks a delivery.
func (r *resumer) took(m Message, err error) {
	r.positions.Add(m, err)
	var gap *GapError
	var event *PublisherEvent
	switch {
	case errors.As(err, &gap):
		x := r.runs[events.Instance{Publisher: gap.Publisher, Epoch: gap.Epoch}]
		if gap.Topic != "" && (gap.First != x.next[gap.Topic] || (gap.Count == 0) != gap.Open) {
			r.t.Fatalf("gap %v, want one that begins at %d", gap, x.next[gap.Topic])
		}
		if gap.Open {
			r.open++
			x.open[gap.Topic] = gap.First
		}
		if gap.Topic == "" {
			x.lost = true
		} else {
			x.next[gap.Topic] += gap.Count
		}
		r.gaps++
	case errors.As(err, &event):
		if event.Kind == events.PublisherLost || event.Kind == events.PublisherRestarted {
			r.runs[events.Instance{Publisher: event.Publisher, Epoch: event.Epoch}].lost = true
		}
	case err != nil:
		r.t.Fatal(err)
	default:
		x := r.runs[events.Instance{Publisher: m.Publisher(), Epoch: m.Epoch()}]
		if m.Number != x.next[m.Topic] || string(m.Data) != fmt.Sprint(m.Topic, " ", m.Number) {
			r.t.Fatalf("epoch %d: message %d of topic %s is %q, want number %d", m.Epoch(), m.Number, m.Topic, m.Data, x.next[m.Topic])
		}
		x.next[m.Topic]++
		r.got++
	}
}

// A subscriber and its publishers are repeatedly closed or killed, and restarted, with 5 % loss: every message is
// delivered once or is in a gap. For 1,000 restarts: go test ./pubsub -run TestResumeAcrossRestarts -restarts 1000.
// docs/protocol §9.8.
func TestResumeAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rnd := rand.New(rand.NewPCG(1, uint64(*restarts)))
		r := &resumer{t: t, url: "mem://restarts?groups=3", kept: []byte("[]"), runs: make(map[events.Instance]*run)}
		feeds := make([]*feed, 3)
		begin := func(i int) {
			r.seed++
			f := &feed{name: fmt.Sprint("feed", i)}
			f.process = startProcess(t, Config{Name: f.name, WindowBytes: 64 << 10, Faults: fmt.Sprint("loss=0.05,seed=", r.seed)}, r.url)
			for _, topic := range []string{"x", fmt.Sprint("md.", i), fmt.Sprint("md.rare", i)} {
				f.topics = append(f.topics, publisher(t, f.b, topic))
			}
			feeds[i] = f
			r.runs[f.instance()] = &run{published: map[string]uint64{}, next: map[string]uint64{}, open: map[string]uint64{}}
		}
		for i := range feeds {
			begin(i)
		}
		r.begin()
		for n := 0; n < *restarts; {
			for _, f := range feeds {
				if rnd.IntN(3) == 0 {
					continue
				}
				x := r.runs[f.instance()]
				for _, p := range f.topics[:2+rnd.IntN(20)/19] {
					for range rnd.IntN(100) {
						publish(t, ctx, p, fmt.Sprint(p.Topic(), " ", x.published[p.Topic()]))
						x.published[p.Topic()]++
						if rnd.IntN(8) > 0 {
							continue
						}
						if err := p.Flush(ctx); err != nil { // one packet each, so that messages leave the window sooner
							t.Fatal(err)
						}
					}
				}
				if err := f.topics[0].Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if rnd.IntN(2) == 0 {
				r.read(time.Duration(rnd.IntN(30)) * time.Millisecond)
			}
			back, i := rnd.IntN(2) == 0, rnd.IntN(2*len(feeds))
			if i < len(feeds) {
				x := r.runs[feeds[i].instance()]
				for tries := 0; len(x.next) < len(x.published); tries++ { // topics without a delivery have no position
					if tries == 1000 {
						t.Fatalf("nothing is delivered of some topics of a publisher: %+v", x)
					}
					r.read(10 * time.Millisecond)
				}
			}
			if back {
				r.process.end(rnd.IntN(2) == 0)
			}
			if i < len(feeds) {
				x := r.runs[feeds[i].instance()]
				x.killed = rnd.IntN(2) == 0
				feeds[i].process.end(x.killed)
				begin(i)
				n++
			}
			if back {
				r.begin()
			}
		}
		r.read(30 * time.Second)
		for _, f := range feeds {
			f.process.end(false)
		}
		r.read(30 * time.Second)
		r.process.end(false)
		tails := 0
		for of, x := range r.runs {
			for topic, n := range x.published {
				next := x.next[topic]
				from, open := x.open[topic]
				reported := open && from == next || x.killed && x.lost // from there on
				if next > n || next < n && !reported {
					t.Errorf("publisher %s, epoch %d: %d messages of topic %s, and %d were delivered or gaps: %+v", of.Publisher, of.Epoch, n, topic, next, x)
				}
				if next < n && !open {
					tails++
				}
			}
		}
		if tails > 1+*restarts/100 || r.got == 0 {
			t.Errorf("the last messages of %d topics are lost, and not reported", tails)
		}
		t.Logf("%d restarts: %d messages, %d gaps, %d of them because a run was absent; the last messages of %d topics of killed runs are lost", *restarts, r.got, r.gaps, r.open, tails)
	})
}

func (f *feed) instance() events.Instance { return f.b.loop.Instance() }

// Message numbers belong to an epoch: a position does not apply to the publisher's next run, of which a restarted
// subscriber receives every message. docs/protocol §9.8.
func TestResumeAfterPublisherRestart(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	kept := new(Positions)
	for i, c := range []struct{ publish, deliver int }{{500, 500}, {750, 750}, {0, 0}} {
		b, err := Config{Name: "feed", Logger: quiet}.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		p := publisher(t, b, "x")
		for n := range c.publish {
			publish(t, ctx, p, fmt.Sprint("message ", n))
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		there := openBus(t, Config{}, url)
		s := subscribe(t, there, "x", From(kept))
		for n := range c.deliver {
			m, err := s.Next(ctx)
			if err != nil || m.Number != uint64(n) {
				t.Fatalf("run %d: %d %q, %v, want message %d", i, m.Number, m.Data, err, n)
			}
			kept.Add(m, err)
		}
		there.Close()
		b.Close()
	}
	if got := kept.String(); got != "positions (2)" {
		t.Errorf("positions print as %q, want positions (2)", got)
	}
}

// A position whose publisher is absent yields an open gap, because the publisher may have published more. With
// PublisherEvents it is delivered only once; without, nothing would report that the publisher came up meanwhile.
func TestPositionOfAbsentPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		kept := new(Positions)
		for _, topic := range []string{"x", "md.a", "other"} {
			kept.set(runTopic{events.Instance{Publisher: 7, Epoch: 8}, topic}, position{next: 5})
		}
		kept.set(runTopic{events.Instance{Publisher: 7, Epoch: 9}, "x"}, position{5, gone{ended: true}})
		for i, c := range []struct {
			options []SubscribeOption
			want    string
		}{{nil, "md.a 5, x 5"}, {[]SubscribeOption{PublisherEvents()}, "md.a 5, x 5"}, {[]SubscribeOption{PublisherEvents()}, ""}, {nil, "md.a 5, x 5"}} {
			b := openBus(t, Config{Wait: WaitPark}, "mem://gone")
			s := subscribe(t, b, "x", append(c.options, Topics("md.>"), From(kept))...)
			var handled []string
			h, err := b.Handle("x", func(_ Message, err error) { handled = append(handled, fmt.Sprint(err)) }, append(c.options, From(kept))...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			timed, cancel := context.WithTimeout(ctx, 20*time.Second)
			for {
				m, err := s.Next(timed)
				var gap *GapError
				if !errors.As(err, &gap) {
					break
				}
				kept.Add(m, err)
				if !gap.Open || gap.Count != 0 || gap.Publisher != 7 || gap.Epoch != 8 || gap.Cause != events.CausePublisherLost {
					t.Errorf("gap %+v, want an open one of publisher 7, epoch 8, cause %v", gap, events.CausePublisherLost)
				}
				got = append(got, fmt.Sprint(gap.Topic, " ", gap.First))
			}
			cancel()
			if slices.Sort(got); strings.Join(got, ", ") != c.want {
				t.Errorf("subscription %d: gaps %v, want %s", i, got, c.want)
			}
			if n := s.Stats().Gaps(); n != uint64(len(got)) {
				t.Errorf("%d gaps are counted, %d were delivered, want equal numbers", n, len(got))
			}
			if h.Close(); len(handled) != min(1, len(got)) || len(got) > 0 && !strings.Contains(handled[0], "from number 5 on may be lost") {
				t.Errorf("the handler has %q, want at most one gap, from number 5", handled)
			}
			b.Close()
		}
	})
}

// After a lost publisher has come up again, its absence is reported again, even if it has published nothing since.
// docs/protocol §9.8.
func TestPositionOfReturningPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		const url = "mem://back"
		feed := openBus(t, Config{Name: "feed", Wait: WaitPark}, url)
		pub := publisher(t, feed, "x")
		m, err := mem.Open(mem.Config{Name: "back"})
		if err != nil {
			t.Fatal(err)
		}
		cut := &cuttable{Transport: m}
		there, err := Config{Logger: quiet, Wait: WaitPark}.OpenTransport(cut)
		if err != nil {
			t.Fatal(err)
		}
		kept := new(Positions)
		s := subscribe(t, there, "x", From(kept), PublisherEvents())
		publish(t, ctx, pub, "message 0")
		next := func() string {
			m, err := s.Next(ctx)
			kept.Add(m, err)
			var event *PublisherEvent
			if errors.As(err, &event) {
				return event.Kind.String()
			}
			return fmt.Sprint(string(m.Data), err)
		}
		got := []string{next(), next()}
		cut.cut.Store(true)
		got = append(got, next())
		cut.cut.Store(false)
		got = append(got, next())
		if want := []string{events.PublisherUp.String(), "message 0<nil>", events.PublisherLost.String(), events.PublisherUp.String()}; !slices.Equal(got, want) {
			t.Fatalf("received %q, want %q", got, want)
		}
		there.Close()
		for range 100 {
			publish(t, ctx, pub, "not received")
		}
		feed.Close()
		var gap *GapError
		timed, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = subscribe(t, openBus(t, Config{Wait: WaitPark}, url), "x", From(kept), PublisherEvents()).Next(timed)
		if !errors.As(err, &gap) || !gap.Open || gap.First != 1 {
			t.Errorf("%v, want that messages from number 1 on may be lost", err)
		}
	})
}

func TestPositions(t *testing.T) {
	var p Positions
	gap := func(epoch, first, count uint64, open bool) error {
		return fmt.Errorf("wrapped: %w", &GapError{Topic: "x", Publisher: 1, Epoch: events.ID(epoch), First: first, Count: count, Open: open, events: open})
	}
	event := func(kind events.Kind, epoch uint64) error {
		return &PublisherEvent{Kind: kind, Publisher: 1, Epoch: events.ID(epoch), Topics: []string{"x", "y"}}
	}
	at := func(epoch, next int, gone ...string) string {
		text := fmt.Sprintf(`{"publisher":"0000000000000001","epoch":"%016x","topic":"x","next":%d`, epoch, next)
		for _, gone := range gone {
			text += fmt.Sprintf(`,%q:true`, gone)
		}
		return text + "}"
	}
	for i, c := range []struct {
		err  error
		want string
	}{
		{gap(3, 0, 10, false), at(3, 10)},
		{gap(3, 4, 1, false), at(3, 10)}, // older than the position
		{gap(3, 10, 0, true), at(3, 10, "lost")},
		{gap(3, 10, 2, false), at(3, 12)}, // the message arrives after all
		{event(events.PublisherLost, 3), at(3, 12, "lost")},
		{event(events.PublisherUp, 4), at(3, 12, "lost")},
		{event(events.PublisherUp, 3), at(3, 12)}, // the publisher is back, without messages on that topic
		{event(events.PublisherEnded, 4), at(3, 12)},
		{event(events.PublisherRestarted, 3), at(3, 12, "lost")},
		{event(events.PublisherEnded, 3), at(3, 12, "ended")},
		{event(events.PublisherUp, 3), at(3, 12)}, // the end was forged
		{event(events.PublisherEnded, 3), at(3, 12, "ended")},
		{gap(4, 0, 1, false), at(3, 12, "ended") + "," + at(4, 1)},
		{event(events.PublisherUp, 4), at(3, 12, "ended") + "," + at(4, 1)}, // in another group, or a second time: run 3 may end meanwhile
		{event(events.PublisherLost, 4), at(3, 12, "ended") + "," + at(4, 1, "lost")},
		{event(events.PublisherUp, 5), at(4, 1, "lost")}, // the next run
		{event(events.PublisherEnded, 4), at(4, 1, "ended")},
		{event(events.PublisherUp, 6), ""},
		{errors.New("another"), ""},
		{nil, ""}, // a message made by the program
	} {
		p.Add(Message{Topic: "x", Number: 100}, c.err)
		got, err := json.Marshal(struct{ At Positions }{p})
		if want := `{"At":[` + c.want + `]}`; err != nil || string(got) != want {
			t.Errorf("step %d: %s, %v, want %s", i, got, err, want)
		}
		var again Positions
		if err := json.Unmarshal([]byte("["+c.want+"]"), &again); err != nil || again.String() != p.String() {
			t.Errorf("step %d: positions %v are read as %v, error %v, want the same", i, p.of, again.of, err)
		}
	}
	p.set(runTopic{events.Instance{Publisher: 1, Epoch: 2}, "x"}, position{next: 3})
	for _, text := range []string{
		`{}`, `[{"publisher":"1","epoch":"3","topic":"x","next":1}]`, `[{"publisher":"0000000000000001","epoch":"-3","topic":"x","next":1}]`,
		`[{"publisher":"0000000000000001","epoch":"0000000000000003","topic":"md.*","next":1}]`, `[{"publisher":"0000000000000001","epoch":"0000000000000003","topic":"x","next":-1}]`,
		`[{"publisher":"0000000000000001","epoch":"0000000000000003","topic":"x","next":9223372036854775808}]`,
	} {
		if err := json.Unmarshal([]byte(text), &p); err == nil || len(p.of) != 1 {
			t.Errorf("decoding %s: error %v, positions %v, want an error and the one position kept", text, err, p.of)
		}
	}
}

// Only packets after the positions are fetched from the window, newest first, by name and by pattern. docs/protocol
// §9.8.
func TestResumeFetchesWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		bus := openBus(t, Config{Name: "feed", Wait: WaitPark}, "mem://fetch")
		const before, missing = 20_000, 100
		pub, silent := publisher(t, bus, "md.x"), publisher(t, bus, "md.silent")
		publish(t, ctx, silent, "message 0")
		for n := range before {
			publish(t, ctx, pub, fmt.Sprint("message ", n))
			if n%10 == 0 {
				if err := pub.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := pub.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for _, topics := range [][]string{{"md.x"}, {"md.x", "md.silent", "md.none"}, {"md.*"}} {
			kept := positionOf(bus, "md.x", before-missing)
			kept.set(runTopic{bus.loop.Instance(), "md.silent"}, position{next: 1})
			there := openBus(t, Config{Wait: WaitPark}, "mem://fetch")
			s := subscribe(t, there, topics[0], Topics(topics[1:]...), From(kept))
			if first, gaps := readNumbers(t, ctx, s, before-1); first != before-missing || gaps != nil {
				t.Errorf("%v: begins with message %d, gaps %v, want %d and none", topics, first, gaps, before-missing)
			}
			if n := there.Stats().Groups[0].History; n > 300 {
				t.Errorf("%v: %d packets were fetched, want at most 300", topics, n)
			}
			there.Close()
		}
	})
}
