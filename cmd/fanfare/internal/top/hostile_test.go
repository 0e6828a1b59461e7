package top

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// A huge loss that one process reports does not hide the losses of another.
func TestSumsDoNotWrap(t *testing.T) {
	lost := func(pid int, n uint64) inspect.Seen {
		return inspect.Seen{Snapshot: &inspect.Snapshot{Process: inspect.Process{PID: pid}, Buses: []inspect.Bus{{Causes: []stats.CauseCount{{Cause: "gone", Gaps: n, Messages: n}}}}}}
	}
	f := Between(Observation{}, Observation{time.Unix(1e9, 0), []inspect.Seen{lost(7, 40), lost(8, math.MaxUint64)}})
	if f.Total.Gaps != math.MaxUint64 {
		t.Errorf("%d gaps, want %d", f.Total.Gaps, uint64(math.MaxUint64))
	}
}

// Reading the largest valid answer of a process takes little processor time.
func TestLargeAnswersAreCheap(t *testing.T) {
	testenv.Slow(t)
	const many = 60_000
	b := inspect.Bus{Identity: inspect.Identity{ID: "b"}, Groups: []inspect.Group{{Address: "g", Joined: true}}}
	for i := range many {
		address := fmt.Sprint("g", i)
		b.Groups = append(b.Groups, inspect.Group{Address: address})
		b.Publications = append(b.Publications, inspect.Publication{Address: address})
		b.Groups[0].Streams = append(b.Groups[0].Streams, inspect.Stream{Publisher: address})
	}
	for i := range inspect.MaxSubscriptions {
		s := inspect.Subscription{Number: uint64(i), Lost: []stats.CauseCount{{Cause: "gone", Gaps: 1}}}
		s.Publishers = make([]inspect.SubscriptionFeed, inspect.MaxFeeds)
		b.Subscriptions = append(b.Subscriptions, s)
	}
	now := time.Unix(1e9, 0)
	b.Losses = &inspect.LossRecord{Losses: make([]inspect.Loss, 4096)}
	for i := range b.Losses.Losses {
		b.Losses.Losses[i] = inspect.Loss{Last: now, Cause: "gone", Messages: uint64(i * 7919 % 4096)}
	}
	observe := func(at time.Time) Observation {
		return Observation{at, []inspect.Seen{{Snapshot: &inspect.Snapshot{Time: at, Process: inspect.Process{PID: 1}, Buses: []inspect.Bus{b}}}}}
	}
	began := testenv.ProcessorTime()
	f := Between(observe(now), observe(now.Add(time.Second)))
	if len(f.Streams) != many {
		t.Errorf("%d streams, want %d", len(f.Streams), many)
	}
	if err := Write(io.Discard, f, "", "", 200); err != nil {
		t.Error(err)
	}
	if elapsed := testenv.ProcessorTime() - began; elapsed > 20*time.Second {
		t.Errorf("it took %v of processor time, want at most 20 s", elapsed)
	} else {
		t.Logf("it took %v of processor time", elapsed)
	}
}

// fill sets all strings of a value to a text, and its numbers to extreme values.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Uint64:
		v.SetUint(math.MaxUint64)
	case reflect.Int, reflect.Int64:
		v.SetInt(-3)
	case reflect.Float64:
		v.SetFloat(1e15)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), text)
		fill(v.Index(1), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text), reflect.ValueOf(uint64(3)))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f, text)
			}
		}
	}
}

// No text of a snapshot puts an escape sequence into a table or a detail.
func TestTextsAreQuoted(t *testing.T) {
	var seen inspect.Seen
	fill(reflect.ValueOf(&seen.Snapshot).Elem(), "\x1b[31mred\u009b2J\u202e\r\n")
	o := Observation{time.Unix(1e9, 0), []inspect.Seen{seen, {Socket: "\x1b[2J", Err: errors.New("\x1b[2J")}}}
	f := Between(o, o)
	var all strings.Builder
	if err := Write(&all, f, "", "", 200); err != nil {
		t.Error(err)
	}
	s := NewScreen("")
	s.figures, s.Width = f, 200
	for i, name := range viewNames {
		rows := f.table(i).rows
		if len(rows) == 0 {
			t.Errorf("the table of %s has no row", name)
		}
		for _, r := range rows {
			w := writer{width: 200}
			s.details(&w, r, 1000)
			all.WriteString(w.text(1000))
		}
	}
	if i := strings.IndexFunc(all.String(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); i >= 0 {
		t.Errorf("the screen has an unprintable character: %q", all.String()[max(0, i-80):i+20])
	}
}
