package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub"
)

// looked is where top and web look: at processes of this host, and on the wire.
type looked struct {
	places []string // sockets and directories; empty: all processes of this user
	urls   []string // of what is listened to, one a leg; empty: nothing is
}

// placeHelp says what a place is, for the help of commands that look.
const placeHelp = `PLACE is the socket of a process, or a directory with some. Without it all of yours on
this host are asked, and by root those of all users.
`

func (l *looked) registerWire(fs *flagSet) {
	urlsVar(fs, &l.urls, "t", nil, "listen to the fabric with this `URL`, too, and show the publishers that are heard there and were not asked, with the rates of their topics: "+
		"it asks them for the names of their topics, as ls does. Given more than once, each is a leg")
}

// open begins to listen, and returns what reads all. The caller closes it.
func (l *looked) open(ctx context.Context) (read func(context.Context) ([]inspect.Seen, error), closeIt func(), err error) {
	if err := placesExist(l.places); err != nil {
		return nil, nil, err
	}
	ask := func(ctx context.Context) ([]inspect.Seen, error) { return inspect.ReadAll(ctx, l.places...) }
	if len(l.urls) == 0 {
		return ask, func() {}, nil
	}
	// It shows itself to nobody, and what it would log would be in the way of what is shown.
	bus, err := pubsub.Config{Inspect: pubsub.InspectOff, Logger: slog.New(slog.DiscardHandler)}.Open(ctx, l.urls[0], l.urls[1:]...)
	if err != nil {
		return nil, nil, &usageError{err}
	}
	survey, err := bus.Survey()
	if err != nil {
		bus.Close()
		return nil, nil, err
	}
	began, of := time.Now(), strings.Join(l.urls, " ")
	read = func(ctx context.Context) ([]inspect.Seen, error) {
		seen, err := ask(ctx)
		if err != nil && len(l.places) == 0 && errors.Is(err, inspect.ErrOff) {
			err = nil // the wire can be looked at all the same
		}
		if err != nil {
			return seen, err
		}
		heard, err := survey.Topics()
		if err != nil {
			return append(seen, inspect.Seen{Socket: of, Err: err}), nil
		}
		return append(seen, overheard(heard, seen, l.urls, began, time.Now())...), nil
	}
	return read, func() { survey.Close(); bus.Close() }, nil
}

type publisherKey struct {
	id    string
	epoch uint64
}

// overheard is what was heard, as if each publisher that has not been asked itself had said it:
// its topics, and how many messages each has had.
func overheard(heard *pubsub.TopicList, seen []inspect.Seen, urls []string, began, now time.Time) (all []inspect.Seen) {
	asked, interfaces := make(map[publisherKey]bool), make(map[string][]string)
	for _, b := range losses.Buses(seen) {
		asked[publisherKey{b.ID, b.Epoch}] = true
		on := func(group string) {
			if interfaces[group] == nil {
				interfaces[group] = b.Fabric.Interfaces
			}
		}
		for _, g := range b.Groups {
			on(g.Address)
		}
		for _, p := range b.Publications {
			on(p.Address)
		}
	}
	of := make(map[publisherKey]*inspect.Bus)
	var buses []*inspect.Bus // in the order of all
	for i := range heard.Topics {
		t := &heard.Topics[i]
		for _, p := range t.Publishers {
			k := publisherKey{p.ID.String(), p.Epoch}
			if asked[k] {
				continue
			}
			b := of[k]
			if b == nil {
				b = &inspect.Bus{
					Identity: inspect.Identity{ID: k.id, Epoch: k.epoch, Name: p.Name, ShownAs: cmp.Or(p.Name, k.id), URLs: urls, Since: began},
					Fabric:   inspect.Fabric{Interfaces: interfaces[t.GroupAddress]},
				}
				of[k], buses = b, append(buses, b)
				all = append(all, inspect.Seen{Socket: cmp.Or(p.Address, k.id), Snapshot: &inspect.Snapshot{
					Version: inspect.Version, Time: now, Process: inspect.Process{Program: cmp.Or(p.Address, "an unknown address"), Started: began},
				}})
			}
			b.Topics = append(b.Topics, inspect.Topic{Name: t.Name, Group: t.GroupAddress, Messages: p.Messages})
			addMessages(b, t.GroupAddress, p.Messages)
		}
	}
	for i, b := range buses {
		slices.SortStableFunc(b.Topics, func(x, y inspect.Topic) int { return cmp.Compare(y.Messages, x.Messages) })
		if n := len(b.Topics) - inspect.MaxTopics; n > 0 {
			b.Topics, b.TopicsLeftOut = b.Topics[:inspect.MaxTopics], n
		}
		all[i].Snapshot.Buses = []inspect.Bus{*b}
	}
	if heard.Err != nil {
		all = append(all, inspect.Seen{Socket: strings.Join(urls, " "), Err: heard.Err})
	}
	return all
}

func addMessages(b *inspect.Bus, group string, n uint64) {
	for i := range b.Publications {
		if p := &b.Publications[i]; p.Address == group {
			p.Counters["messages_sent"] += n
			return
		}
	}
	b.Publications = append(b.Publications, inspect.Publication{Address: group, Counters: inspect.Counters{"messages_sent": n}})
}
