package inspect

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Bounds of figures in a snapshot. The figures of a correct process are far below.
const (
	maxFigure = 1e15 // of times and other numbers, in any unit
	maxIndex  = 2048 // of a bucket of a histogram, positive and negative: 2^64 and its reciprocal
	maxYear   = 9990 // a later year cannot be formatted in every time zone
)

// Bounds of texts that are repeated in each row about a bus: small answers must not become large outputs.
const (
	maxName     = 256  // bytes of a name or an address
	maxOfLegs   = 16   // legs, and lists with one element per leg
	maxCounters = 1024 // of one kind
)

// longTexts has the fields that may be longer than maxName, because each is output only once or twice.
var longTexts = []string{"Bus.Incomplete", "Bus.Ended", "Event.Text", "Event.Leg", "Event.Error", "Loss.Subscription", "Loss.Leg", "Loss.Error", "Leg.URL", "Subscription.Ended"}

// Bounds of a LossRecord, larger than those of package lossrecord.
const (
	maxLosses  = 4096
	maxMinutes = 128
	maxCauses  = 256
	maxWays    = 64 // ways of a minute
)

// Check returns an error if a list of a snapshot exceeds its bound, or a figure is impossible. Snapshots of other
// processes are checked only when they are read.
func (s *Snapshot) Check() error {
	for i := range s.Buses {
		if err := s.Buses[i].checkLengths(); err != nil {
			return fmt.Errorf("bus %d: %w", i+1, err)
		}
	}
	return checkFigures(reflect.ValueOf(s).Elem(), "snapshot")
}

// checkLengths compares the lengths of a bus's lists with their bounds.
func (b *Bus) checkLengths() error {
	type list struct {
		what    string
		n, most int
	}
	all := []list{{"topics", len(b.Topics), MaxTopics}, {"subscriptions", len(b.Subscriptions), MaxSubscriptions}, {"events", len(b.Events), MaxEvents}}
	for i := range b.Subscriptions {
		x := &b.Subscriptions[i]
		all = append(all, list{"topics of a subscription", len(x.Topics), MaxSubscribed}, list{"publishers of a subscription", len(x.Publishers), MaxFeeds})
	}
	all = append(all, list{"causes", len(b.Causes), maxCauses},
		list{"URLs", len(b.URLs), maxOfLegs}, list{"legs", len(b.Legs), maxOfLegs}, list{"buffers", len(b.Fabric.Buffers), maxOfLegs}, list{"interfaces", len(b.Fabric.Interfaces), maxOfLegs})
	if r := b.Losses; r != nil {
		all = append(all, list{"losses", len(r.Losses), maxLosses}, list{"sums of losses", len(r.Older), maxCauses}, list{"minutes of losses", len(r.Minutes), maxMinutes})
		for i := range r.Minutes {
			all = append(all, list{"causes of a minute", len(r.Minutes[i].Causes), maxCauses}, list{"ways of a minute", len(r.Minutes[i].Ways), maxWays})
		}
	}
	for _, x := range all {
		if x.n > x.most {
			return fmt.Errorf("%d %s exceed the maximum of %d", x.n, x.what, x.most)
		}
	}
	return nil
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	bucketType = reflect.TypeFor[stats.Bucket]()
	namesType  = reflect.TypeFor[[]string]()
)

// checkFigures checks all figures in v.
func checkFigures(v reflect.Value, name string) error {
	switch v.Type() {
	case timeType:
		if year := v.Interface().(time.Time).UTC().Year(); year < 1 || year > maxYear {
			return fmt.Errorf("%s is in the year %d", name, year)
		}
		return nil
	case bucketType:
		if b := v.Interface().(stats.Bucket); b.Index < -maxIndex || b.Index > maxIndex {
			return fmt.Errorf("%s has the index %d", name, b.Index)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.Abs(x) > maxFigure {
			return fmt.Errorf("%s is %v", name, x)
		}
	case reflect.Int:
		if x := v.Int(); x > maxFigure || x < -maxFigure {
			return fmt.Errorf("%s is %d", name, x)
		}
	case reflect.String:
		if v.Len() > maxName && !slices.Contains(longTexts, name) {
			return fmt.Errorf("%s has %d bytes", name, v.Len())
		}
	case reflect.Map:
		if v.Len() > maxCounters {
			return fmt.Errorf("%s are %d", name, v.Len())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return checkFigures(v.Elem(), name)
		}
	case reflect.Slice:
		if v.Type() == namesType && name != "Fabric.Interfaces" {
			return nil // lists such as URLs and Topics are output once
		}
		if v.Type().Elem() == bucketType && v.Len() > 2*maxIndex+1 {
			return fmt.Errorf("%s are %d", name, v.Len())
		}
		for i := range v.Len() {
			if err := checkFigures(v.Index(i), name); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := checkFigures(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name); err != nil {
				return err
			}
		}
	}
	return nil
}
