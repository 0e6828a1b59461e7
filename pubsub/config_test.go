package pubsub

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// configFields has invalid and valid values of each field of Config. A new field needs a row.
var configFields = map[string]struct{ bad, good []any }{
	"Name":  {[]any{strings.Repeat("x", 65), "a\x1b[2J", "a\nb", "\xff", "two words"}, []any{"", "md-é", strings.Repeat("x", 64)}},
	"Tag":   {[]any{"two words", "a,b", "a\nb", "\xff", strings.Repeat("x", 33)}, []any{"", "book", "é", strings.Repeat("x", 32)}},
	"Clock": {[]any{"two words", "a\nb", "\xff", strings.Repeat("x", 65)}, []any{"", "none", "ptp", strings.Repeat("x", 64)}},
	"FlowControl": {[]any{FlowControl("most"), FlowControl("MIN"), FlowControl("quorum"), FlowControl("quorum:"), FlowControl("quorum:03"), FlowControl("quorum:x"), FlowQuorum(0), FlowQuorum(-1), FlowQuorum(maxQuorum + 1),
		FlowTagged(""), FlowTagged("two words"), FlowTagged("a,b"), FlowTagged(strings.Repeat("x", 33)), FlowNone.Tagged("a"), FlowTagged("a").Tagged("b"), FlowQuorum(0).Tagged("a"), FlowControl("min,tag:a")}, []any{FlowControl(""), FlowMin, FlowMax, FlowNone, FlowQuorum(1), FlowQuorum(maxQuorum), FlowTagged("a"), FlowMin.Tagged("a"), FlowMax.Tagged("a"), FlowQuorum(2).Tagged(strings.Repeat("x", 32)), FlowControl("").Tagged("é")}},
	"SlowBehind":         {[]any{-1, math.MinInt, maxBehind + 1, math.MaxInt}, []any{0, 1, maxBehind}},
	"SlowFor":            {times(maxTime), []any{time.Duration(0), time.Duration(1), maxTime}},
	"Compress":           {[]any{Compression("lz4"), Compression("s2:fast"), Compression("zstd:"), Compression("none:1")}, []any{Compression(""), Compression("none"), CompressS2, CompressZstd, Compression("s2:better"), Compression("zstd:fastest")}},
	"Dictionaries":       {nil, []any{[][]byte(nil), [][]byte{[]byte("sixteen bytes or")}}}, // and TestDictionaries
	"Pad":                {[]any{-1, 65508, math.MaxInt, math.MinInt}, []any{0, 1, 2, 1472, 65507}},
	"Rate":               {[]any{int64(-1), int64(math.MinInt64), int64(math.MaxInt64), int64(maxRate + 1)}, []any{int64(0), int64(1), int64(maxRate)}},
	"RepairShare":        {[]any{-0.1, 10.1, math.NaN(), math.Inf(1), math.Inf(-1), -math.SmallestNonzeroFloat64}, []any{0.0, 0.01, 10.0}},
	"StateShare":         {[]any{-0.1, 10.1, math.NaN(), math.Inf(1), math.Inf(-1), -math.SmallestNonzeroFloat64}, []any{0.0, 0.01, 10.0}},
	"Silence":            {times(maxTime), []any{time.Duration(0), time.Duration(1), maxTime}},
	"StallLimit":         {[]any{maxTime + 1, time.Duration(math.MaxInt64)}, []any{time.Duration(0), NoStallLimit, time.Duration(math.MinInt64), maxTime}},
	"WindowBytes":        {[]any{-1, 1, 64<<10 - 1, 1<<30 + 1, math.MaxInt, math.MinInt}, []any{0, 64 << 10}},
	"PublishMemoryBytes": {[]any{-1, 1, 8<<20 - 1, math.MinInt, math.MaxInt}, []any{0, 8 << 20, 1 << 30}},
	"FlushAfter":         {times(maxFlush), []any{time.Duration(0), time.Duration(1), maxFlush}},
	"Wait":               {[]any{Wait("sleep")}, []any{Wait(""), WaitAdaptive, WaitPark, WaitSpin}},
	"Inspect":            {[]any{Inspect("yes")}, []any{Inspect(""), InspectAuto, InspectOn, InspectOff}},
	"Linger":             {[]any{maxTime + 1, time.Duration(math.MaxInt64)}, []any{time.Duration(0), time.Duration(-1), time.Duration(math.MinInt64), maxTime}},
	"RecoveryDeadline":   {times(maxTime), []any{time.Duration(0), time.Duration(1), maxTime}},
	"ReceiveWindowBytes": {[]any{-1, 1, 64<<10 - 1, 1<<30 + 1, math.MaxInt, math.MinInt}, []any{0, 64 << 10, 1 << 30}},
	"ReceiveMemoryBytes": {[]any{-1, 1, 8<<20 - 1, math.MinInt, math.MaxInt}, []any{0, 8 << 20, 1 << 30}},
	"MaxPublishers":      {[]any{-1, math.MinInt, maxPublishers + 1, math.MaxInt}, []any{0, 1, maxPublishers}},
	"MaxMessage":         {[]any{-1, math.MinInt, 16<<20 + 1, math.MaxInt}, []any{0, 1, 16 << 20}},
	"Faults":             {[]any{"loss=2", "loss=NaN", "nonsense"}, []any{"", "loss=0.1"}},
	"Loopback":           {nil, []any{false, true}},
	"Keys":               {nil, []any{StaticKeys(nil)}},
	"Sign":               {nil, []any{ed25519.PrivateKey(nil), ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}}, // and TestUnsigned: an error must not show a key
	"Trust":              {nil, []any{StaticTrust(nil)}},
	"OnEvent":            {nil, []any{(func(events.Event))(nil), func(events.Event) {}}},
	"Trace":              {nil, []any{(*Trace)(nil), &Trace{}}},
	"Logger":             {nil, []any{(*slog.Logger)(nil), quiet}},
}

// times are durations that are invalid for a field with the range from 0 to most.
func times(most time.Duration) []any {
	return []any{time.Duration(-1), time.Duration(math.MinInt64), most + 1, time.Duration(math.MaxInt64)}
}

func TestConfigFields(t *testing.T) {
	typ := reflect.TypeFor[Config]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		if !typ.Field(i).IsExported() {
			continue // tests set it
		}
		row, ok := configFields[name]
		if !ok {
			t.Errorf("Config.%s has no row here: which of its values are invalid?", name)
			continue
		}
		with := func(v any) error {
			c := Config{Logger: quiet}
			reflect.ValueOf(&c).Elem().Field(i).Set(reflect.ValueOf(v))
			b, err := c.Open(t.Context(), "mem://"+t.Name())
			if err == nil {
				b.Close()
			}
			return err
		}
		for _, v := range row.bad {
			err := with(v)
			if err == nil {
				t.Errorf("Config.%s: %#v is accepted", name, v)
				continue
			}
			value := fmt.Sprint(v)
			if s, ok := v.(string); ok {
				value = fmt.Sprintf("%q", s)
			}
			if s := err.Error(); !strings.Contains(s, "Config."+name+" is "+value) {
				t.Errorf("Config.%s: %#v: the error does not name field and value: %s", name, v, s)
			}
			var of *ConfigError
			if name != "Faults" && (!errors.As(err, &of) || of.Field != name || of.Value != value || of.Must == "") {
				t.Errorf("Config.%s: error of value %#v: %#v, want a ConfigError of that field and value", name, v, err)
			}
		}
		for _, v := range row.good {
			if err := with(v); err != nil {
				t.Errorf("Config.%s: value %#v refused: %v", name, v, err)
			}
		}
	}
	for name := range configFields {
		if _, ok := typ.FieldByName(name); !ok {
			t.Errorf("Config has no field %s any more", name)
		}
	}
}
