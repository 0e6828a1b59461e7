package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// A Survey listens until it is closed. Topics returns what it has found so far: topics, their publishers and their
// messages.
func ExampleBus_Survey() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bus, err := pubsub.Open(ctx, "mem://example-survey")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	survey, err := bus.Survey("md.>")
	if err != nil {
		log.Fatal(err)
	}
	defer survey.Close()

	feed, err := pubsub.Config{Name: "feed"}.Open(ctx, "mem://example-survey")
	if err != nil {
		log.Fatal(err)
	}
	defer feed.Close()
	for _, topic := range []string{"md.AAPL", "md.MSFT", "news"} {
		p, err := feed.Publisher(topic)
		if err != nil {
			log.Fatal(err)
		}
		if err := p.Publish(ctx, []byte("hello")); err != nil {
			log.Fatal(err)
		}
	}

	for ctx.Err() == nil {
		list, err := survey.Topics()
		if err != nil {
			log.Fatal(err)
		}
		if len(list.Topics) == 2 && !slices.ContainsFunc(list.Topics, func(t pubsub.TopicInfo) bool { return t.Publishers[0].Name == "" }) {
			for _, t := range list.Topics {
				fmt.Println(t.Name, "by", t.Publishers[0].Name)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Output:
	// md.AAPL by feed
	// md.MSFT by feed
}
