package pubsub_test

import (
	"context"
	"fmt"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Trace reports each packet that was lost on the way and repaired.
func ExampleTrace() {
	repaired := make(chan pubsub.TraceLoss, 1000)
	config := pubsub.Config{Faults: "loss=0.2,seed=1", Trace: &pubsub.Trace{
		Repaired: func(x pubsub.TraceLoss) { repaired <- x },
	}}
	there, err := config.Open(context.Background(), "mem://traced")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer there.Close()
	sub, err := there.Subscribe("prices")
	if err != nil {
		fmt.Println(err)
		return
	}
	here, err := pubsub.Config{Name: "feed"}.Open(context.Background(), "mem://traced")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer here.Close()
	pub, err := here.Publisher("prices")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := pub.WaitSubscribers(context.Background(), 1); err != nil {
		fmt.Println(err)
		return
	}
	for range 100 {
		if err := pub.Publish(context.Background(), []byte("42")); err != nil {
			fmt.Println(err)
			return
		}
		if _, err := sub.Next(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
	}
	x := <-repaired
	fmt.Println(x.Name, x.Packets, x.Took > 0)
	// Output: feed 1 true
}
