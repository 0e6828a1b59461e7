package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var update = flag.Bool("update", false, "write testdata anew")

// Rates are differences of counters over the time between the snapshots.
func TestRates(t *testing.T) {
	f := Between(scene())
	total := Total{
		Processes: 3, SentRate: 50000, SentBytesRate: 3e6, ReceivedRate: 2400, ReceivedBytes: 2e6, DeliveredRate: 48000, RepairRate: 20, RepairsSent: 25, MissingRate: 45,
		Repairs: losses.Repairs{Missing: 255, Repaired: 220, Late: 5, Lost: 3}, LostMessages: 60, Gaps: 1, RepairP50: 130, RepairP99: 1200, DeliveryP50: 48, DeliveryP99: 640, SocketDropRate: 40,
	}
	if f.Total != total || f.Interval != 1 {
		t.Errorf("total %+v, want %+v; interval %v", f.Total, total, f.Interval)
	}
	if want := (Host{"trade1", 212992, 2, 2}); f.Host != want {
		t.Errorf("host %+v, want %+v", f.Host, want)
	}
	if len(f.Topics) != 2 || f.Topics[0].Rate != 49000 || f.Topics[1].Rate != 1000 || f.Topics[0].Slow != 2 {
		t.Errorf("topics %+v, want 2 with 49000 and 1000 messages a second, the first with 2 slow subscribers", f.Topics)
	}
	if len(f.Streams) != 1 || f.Streams[0].Rate != 2400 || f.Streams[0].RepairRate != 20 || f.Streams[0].Lag != 700 {
		t.Errorf("streams %+v, want one with 2400 packets a second, 20 repairs a second and lag 700", f.Streams)
	}
	if s := f.Subscriptions; len(s) != 3 || s[0].Rate != 48000 || s[0].Lost != 60 || s[1].Rate != 0 || s[1].Unread != 2.5 {
		t.Errorf("subscriptions %+v, want 3: 48000 messages a second with 60 lost; none, with unread for 2.5 s", s)
	}
	if g := f.Groups; len(g) != 1 || g[0].SentRate != 2500 || g[0].Received != 2400 || g[0].RepairRate != 25 || g[0].NAKRate != 4 ||
		fmt.Sprint(g[0].Publishers, g[0].Subscribers) != "[prices] [book gone risk]" {
		t.Errorf("groups %+v, want one with rates 2500 sent, 2400 received, 25 repairs, 4 NAKs, from prices to book, gone and risk", g)
	}
	if f.Buses[1].Repairs != total.Repairs {
		t.Errorf("bus has repairs %+v, want %+v", f.Buses[1].Repairs, total.Repairs)
	}
	if l := f.Losses; len(l) != 3 || l[0].Rate != 40 || f.Buses[1].SocketDrops != 140 || f.Buses[1].DropRate != 40 {
		t.Errorf("losses %+v, bus %+v, want 3, the first with rate 40, and 140 drops", l, f.Buses[1])
	}
	if l := f.Legs; len(l) != 2 || l[0].Rate != 2400 || l[0].Filled != 8 || l[1].Up {
		t.Errorf("legs %+v, want 2: one with 2400 packets a second and 8 filled, one down", l)
	}
	if e := f.Events; len(e) != 6 || e[0].Event.Kind != "leg_down" || e[2].Event.Sequence != 5 || e[2].Times != 2 || e[3].Times != 1 || e[4].Times != 1 || e[5].Event.Kind != "publisher_up" {
		t.Errorf("events %+v, want 6 from leg_down to publisher_up, the third twice", e)
	}
	if len(f.Failed) != 1 || f.Failed[0] != (Failed{"/run/deaf.sock", "i/o timeout"}) {
		t.Errorf(`failed sockets %+v, want "/run/deaf.sock" with "i/o timeout"`, f.Failed)
	}
}

// States show which subscribers need attention.
func TestStates(t *testing.T) {
	f := Between(scene())
	var states []string
	for _, s := range f.Subscribers {
		states = append(states, s.Subscriber+" "+s.State)
	}
	for _, b := range f.Buses {
		states = append(states, b.Bus+" "+b.State)
	}
	if got, want := strings.Join(states, ", "), "book ok, risk holds, gone silent, prices ok, book ok, 00000000000000cc busy"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
}

// The first line shows the worst problem, and the next one when that is gone.
func TestWorst(t *testing.T) {
	before, now := scene()
	buses := func(i int) *inspect.Bus { return &now.Seen[i].Snapshot.Buses[0] }
	for _, c := range []struct {
		want   string
		level  level
		repair func()
	}{
		{"/run/deaf.sock: i/o timeout", alarm, func() { now.Seen = now.Seen[:3] }},
		{"stuck[30]: the bus's own goroutine is busy", alarm, func() { buses(2).Incomplete = "" }},
		{"slow: risk, subscriber of feed[10]: 6500 packets behind", alarm, func() { buses(0).Publications[0].Subscribers = nil }},
		{"leg udp://?iface=eth1 of orderbook[20]", alarm, func() { buses(1).Legs = nil }},
		{"sockets overflow: 40 datagrams/s. Raise the kernel's limit (now 212992 bytes)", warn, func() { buses(1).Causes[0] = stats.CauseCount{Cause: "injected", Dropped: 9} }},
		{"dropped: 9 datagrams/s at orderbook[20], cause injected", warn, func() { buses(1).Causes = nil }},
		{"2 of 2 sockets have smaller buffers than they asked for: net.core.rmem_max is 208 KiB", calm, func() { buses(0).Fabric, buses(1).Fabric = inspect.Fabric{}, inspect.Fabric{} }},
		{"", calm, func() {}},
	} {
		level, got := Between(before, now).worst()
		if level != c.level || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("worst line is %d %q, want %d %q", level, got, c.level, c.want)
		}
		c.repair()
	}
}

// Without an earlier snapshot, after a restart, and while a bus does not answer, rates are unknown, not wrong.
func TestNoRates(t *testing.T) {
	before, now := scene()
	if f := Between(Observation{}, now); f.Interval != 0 || f.Total.SentRate.known() || f.Topics[0].Rate.known() || f.Total.MissingRate.known() || f.Groups[0].NAKRate.known() || f.Buses[0].SentRate.known() {
		t.Errorf("the first observation has rates: %+v", f.Total)
	} else if b, err := json.Marshal(&f.Total); err != nil || !strings.Contains(string(b), `"sent_messages_per_s":null`) {
		t.Errorf("the first observation's rate in JSON is not null: %s, error %v", b, err)
	}
	restarted, _ := scene()
	for i := range 3 {
		restarted.Seen[i].Snapshot.Buses[0].Epoch++
	}
	if f := Between(restarted, now); f.Total.SentRate.known() || f.Total.ReceivedRate.known() {
		t.Errorf("after a restart: %+v", f.Total)
	}
	busy, _ := scene()
	b := &busy.Seen[1].Snapshot.Buses[0]
	b.Groups, b.Legs, b.Incomplete = nil, nil, "busy"
	if f := Between(busy, now); f.Buses[1].ReceivedRate.known() || f.Legs[0].Rate.known() || f.Total.SentRate != 50000 {
		t.Errorf("after a busy bus: %+v", f.Total)
	}
	if f := Between(now, before); f.Total.SentRate > 0 {
		t.Errorf("the rate between times in the wrong order is above 0: %+v", f.Total)
	}
}

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s: %v; got\n%s\nwant (go test -update writes it anew)\n%s", path, err, got, want)
	}
}

// In each view, at several sizes of terminals: no line is longer than the terminal, no screen has
// more lines, and no text from outside contains an escape sequence.
func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{120, 16}, {60, 12}, {200, 14}} {
		var all strings.Builder
		for i, view := range viewNames {
			s := NewScreen("/run/user/1000/fanfare")
			s.Width, s.Height = size[0], size[1]
			s.Show(Between(scene()))
			s.Key(fmt.Sprint(i+1), "")
			text := s.Text()
			lines := strings.Split(text, "\n")
			if len(lines) > size[1] {
				t.Errorf("%s at %v has %d lines, want at most %d", view, size, len(lines), size[1])
			}
			for _, l := range lines {
				if utf8.RuneCountInString(l) > size[0] || strings.ContainsRune(l, '\x1b') {
					t.Errorf("%s at %v: line %q is longer than the screen or has an escape sequence", view, size, l)
				}
			}
			fmt.Fprintf(&all, "%s\n\n", strings.TrimRight(text, "\n"))
		}
		golden(t, fmt.Sprintf("%dx%d", size[0], size[1]), all.String())
	}
}

// Each view shows the details of a row.
func TestDetails(t *testing.T) {
	var all strings.Builder
	for i := range viewNames {
		s := NewScreen("")
		s.Width, s.Height = 100, 24
		s.Show(Between(scene()))
		for _, key := range []string{fmt.Sprint(i + 1), "down", "enter"} {
			s.Key(key, "")
		}
		fmt.Fprintf(&all, "%s\n\n", s.Text())
	}
	golden(t, "details", all.String())
}

// The screen works with all sizes of a terminal and all keys.
func TestAnySize(t *testing.T) {
	keys := []string{"down", "enter", "s", "S", "r", "end", "?", "x", "tab", "pgup", "/", "q", "enter", "esc", "p", "home", "G", "esc", "shift+tab", "space", "up", "k"}
	for w := -1; w < 130; w += 7 {
		for h := -1; h < 40; h += 5 {
			s := NewScreen("")
			s.Width, s.Height, s.Colour = w, h, true
			s.Text()
			s.Show(Between(scene()))
			for i := range 100 {
				s.Key(keys[i%len(keys)], "q")
				if n := strings.Count(s.Text(), "\n") + 1; n > max(1, h) {
					t.Fatalf("the screen has %d lines, want at most %d", n, max(1, h))
				}
			}
			s.Show(Between(Observation{}, Observation{}))
			s.Text()
		}
	}
}

func TestKeys(t *testing.T) {
	s := NewScreen("")
	s.Width, s.Height = 120, 20
	press := func(keys ...string) string {
		t.Helper()
		for _, k := range keys {
			text := ""
			if len(k) == 1 {
				text = k
			}
			if s.Key(k, text) {
				t.Fatalf("the key %s ends the program, want it to go on", k)
			}
		}
		return s.Text()
	}
	// chosen returns the line of the chosen row.
	chosen := func(text string) string {
		for _, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, "> ") {
				return l
			}
		}
		return ""
	}
	press("enter", "down", "s") // before the first figures are shown
	s.Show(Between(scene()))
	press("esc")
	for _, c := range []struct {
		keys []string
		want string // begins the chosen line
	}{
		{nil, "> pub  md.xnas.AAPL"},
		{[]string{"down"}, "> sub  md.xnas.AAPL"},
		{[]string{"r"}, "> sub  md.xnas.AAPL"}, // the row stays chosen
		{[]string{"home"}, "> sub  md.> (and 6 more)"},
		{[]string{"r", "home", "S"}, "> pub  md.xnas.AAPL"},
		{[]string{"end"}, "> pub  md.xnas.MSFT"},
		{[]string{"home"}, `> sub  evil\x1b[2J`},
		{[]string{"s", "2"}, "> prices"},
		{[]string{"3", "home"}, "> risk"},
		{[]string{"s", "home"}, "> risk"},
		{[]string{"/", "B", "o", "o", "x", "backspace", "k", "enter"}, "> book"},
		{[]string{"esc", "end"}, "> gone"},
		{[]string{"shift+tab"}, "> prices"},
		{[]string{"tab", "tab"}, "> 239.20.0.7:7400"},
	} {
		if got := chosen(press(c.keys...)); !strings.HasPrefix(got, c.want) {
			t.Errorf("after %q: %q, want %q", c.keys, got, c.want)
		}
	}
	if text := press("/", "z", "z", "enter"); !strings.Contains(text, `none of 1 groups has "zz" in it`) {
		t.Errorf("the screen with a filter that nothing passes lacks its text: %s", text)
	}
	press("esc", "p")
	_, later := scene()
	later.Time = later.Time.Add(time.Minute)
	s.Show(Between(Observation{}, later))
	if text := press(); !strings.Contains(text, "12:00:01 · PAUSED") {
		t.Errorf(`the paused screen lacks "12:00:01 · PAUSED": %s`, text)
	}
	if text := press("p"); !strings.Contains(text, "12:01:01") || strings.Contains(text, "PAUSED") {
		t.Errorf("not paused any more: %s", text)
	}
	if text := press("?"); !strings.Contains(text, "Shift-Tab") {
		t.Errorf(`the help lacks "Shift-Tab": %s`, text)
	}
	press("x")
	s.Fail(errors.New("no\x1b[2J file"))
	if text := press(); !strings.Contains(text, `not up to date: no\x1b[2J file`) {
		t.Errorf(`the screen after a failure lacks "not up to date": %s`, text)
	}
	if !s.Key("q", "q") || !s.Key("ctrl+c", "") {
		t.Error("q and Ctrl-C do not end it")
	}
}

// A screen without processes gives advice.
func TestNoProcess(t *testing.T) {
	s := NewScreen("/run/user/1000/fanfare")
	s.Show(Between(Observation{}, Observation{Time: noon}))
	if text := s.Text(); !strings.Contains(text, "No process of this user has a bus") || !strings.Contains(text, "/run/user/1000/fanfare") || !strings.Contains(text, "fanfare sub") {
		t.Errorf("the screen without a process lacks a reason, a directory or an advice: %s", text)
	}
}

// Escape sequences for styles are used with colour only, and end in the same line.
func TestColour(t *testing.T) {
	for _, colour := range []bool{false, true} {
		s := NewScreen("")
		s.Colour = colour
		s.Show(Between(scene()))
		for _, l := range strings.Split(s.Text(), "\n") {
			if got := strings.Contains(l, "\x1b"); got && (!colour || !strings.HasSuffix(l, reset)) {
				t.Errorf("with colour %v the line is %q, want an escape sequence only with colour, and a reset at its end", colour, l)
			}
		}
		if red := strings.Contains(s.Text(), string(red)); red != colour {
			t.Errorf("colour %v, and red is there: %v, want %v", colour, red, colour)
		}
	}
}

func TestWrite(t *testing.T) {
	f := Between(scene())
	var all, one bytes.Buffer
	if err := errors.Join(Write(&all, f, "", "", 160), Write(&one, f, "losses", "overflow", 160)); err != nil {
		t.Fatal(err)
	}
	golden(t, "once", all.String())
	if s := one.String(); strings.Contains(s, "TOPICS") || !strings.Contains(s, "socket_overflow") || strings.Contains(s, "gone") {
		t.Errorf("the screen of one view has others or gone subscribers: %s", s)
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(f); err != nil {
		t.Fatal(err)
	}
	var x map[string]any
	if err := json.Unmarshal(out.Bytes(), &x); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("the output is not one line of JSON: %v: %s", err, out.String())
	}
	for i := range reflect.TypeFor[Figures]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[Figures]().Field(i).Tag.Get("json"), ",")
		if _, ok := x[name]; !ok && name != "" {
			t.Errorf("-json has no %q", name)
		}
	}
	first := x["subscribers"].([]any)[0].(map[string]any)
	if first["process"] != "feed[10]" || first["state"] != stateOK || first["behind"] != 12.0 {
		t.Errorf("subscriber %v, want process feed[10], state %s and 12 behind", first, stateOK)
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		si(0): "0", si(9994): "9994", si(9995): "10.0k", si(1234567): "1.23M", si(2.5e9): "2.50G", si(3e12): "3.00T",
		duration(0): "-", duration(0.25): "250ms", duration(3.21): "3.2s", duration(61): "61s", duration(150): "2m30s", duration(7300): "2h01m", duration(200000): "2d07h",
		bytesText(10): "10 B", bytesText(212992): "208 KiB", bytesText(8 << 20): "8.0 MiB", bytesText(3 << 30): "3.0 GiB",
		microText(0): "-", microText(130): "130 µs", microText(25000): "25.0 ms", microText(2.5e6): "2.5 s",
		fit("abcdef", 4, false): "abc…", fit("ab", 4, true): "  ab", fit("ab", 4, false): "ab  ", fit("é", 1, false): "é",
	} {
		if got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	}
}

// many is a host with ten thousand topics and two hundred subscribers of each group.
func many() (before, now Observation) {
	at := func(second uint64) Observation {
		o := Observation{Time: time.Unix(int64(1_800_000_000+second), 0)}
		for p := range 40 {
			b := inspect.Bus{Identity: inspect.Identity{ID: fmt.Sprintf("%016x", p+1), Name: fmt.Sprintf("prices-%d", p), Epoch: 7}, TopicsLeftOut: 10}
			for i := range 250 {
				b.Topics = append(b.Topics, inspect.Topic{Name: fmt.Sprintf("md.%d.%d", p, i), Group: fmt.Sprintf("239.20.0.%d:7400", i%16), Messages: 100 * second * uint64(1+i), Subscribers: 200})
			}
			for g := range 16 {
				x := inspect.Publication{Address: fmt.Sprintf("239.20.0.%d:7400", g), Counters: inspect.Counters{"messages_sent": 1000 * second}}
				for m := range 200 {
					x.Subscribers = append(x.Subscribers, inspect.Subscriber{ID: fmt.Sprintf("%x", m), Name: fmt.Sprintf("desk-%d", m), Behind: uint64(m), Holds: m == 199 && p == 3, HeldFor: float64(m) / 10})
				}
				b.Publications = append(b.Publications, x)
			}
			o.Seen = append(o.Seen, inspect.Seen{Snapshot: &inspect.Snapshot{Time: o.Time, Process: inspect.Process{PID: p + 1, Program: "feed"}, Buses: []inspect.Bus{b}}})
		}
		return o
	}
	return at(1), at(2)
}

// With ten thousand topics a screen is as large as the terminal, names slow subscribers first, and
// gives the number of topics that it lacks.
func TestManyTopics(t *testing.T) {
	before, now := many()
	s := NewScreen("here")
	s.Width, s.Height = 120, 30
	s.Show(Between(before, now))
	text := s.Text()
	if lines := strings.Split(text, "\n"); len(lines) > 30 || !strings.Contains(lines[2], "slow: desk-199") || !strings.Contains(text, "md.0.249") {
		t.Errorf("the screen has %d lines, want at most 30 with desk-199 as slow and md.0.249:\n%s", len(lines), text)
	}
	if !strings.Contains(text, "topics 10000 of 10400") {
		t.Errorf("it does not say how many there are:\n%s", text)
	}
}

func BenchmarkManyTopics(b *testing.B) {
	before, now := many()
	for b.Loop() {
		s := NewScreen("here")
		s.Width, s.Height = 120, 30
		s.Show(Between(before, now))
		if s.Text() == "" {
			b.Fatal("the screen is empty")
		}
	}
}
