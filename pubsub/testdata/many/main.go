// Command many opens and closes subscriptions, and writes how often each statement ran: TestManyAreLinear builds it
// with -cover. Its arguments are a directory and numbers of subscriptions.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"

	"github.com/fanfaremq/fanfare/pubsub"
)

func main() {
	for _, arg := range os.Args[2:] {
		n, err := strconv.Atoi(arg)
		check(err)
		check(coverage.ClearCounters())
		b, from := open(arg), open(arg)
		for i := range n {
			_, err := from.Publisher(fmt.Sprintf("named%d.%[1]d", i)) // what the last patterns match
			check(err)
		}
		p, err := from.Publisher("topic.0")
		check(err)
		s, err := b.Subscribe("topic.0")
		check(err)
		check(p.WaitSubscribers(context.Background(), 1))
		check(s.Close())
		handler := func(name string) (*pubsub.Subscription, error) { return b.Handle(name, func(pubsub.Message, error) {}) }
		reader := func(name string) (*pubsub.Subscription, error) { return b.Subscribe(name) }
		for _, c := range []struct {
			name string
			open func(string) (*pubsub.Subscription, error)
		}{{"topic.%d", handler}, {"topic.%d", reader}, {"topic.0%.0d", handler}, {"topic.0%.0d", reader}, {"other%d.*", handler}, {"*.%d", handler}, {"*.%d", reader}} {
			subs := make([]*pubsub.Subscription, n)
			for i := range subs {
				subs[i], err = c.open(fmt.Sprintf(c.name, i))
				check(err)
			}
			for i := range subs {
				check(subs[n-1-i].Close())
			}
		}
		dir := filepath.Join(os.Args[1], arg)
		check(os.Mkdir(dir, 0o700))
		check(coverage.WriteMetaDir(dir))
		check(coverage.WriteCountersDir(dir))
	}
}

func open(name string) *pubsub.Bus {
	b, err := pubsub.Config{Wait: pubsub.WaitPark, Inspect: pubsub.InspectOff}.Open(context.Background(), "mem://"+name+"?groups=1")
	check(err)
	return b
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
