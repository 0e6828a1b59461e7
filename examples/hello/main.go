// Hello sends a line of text from one process to others, by reliable multicast on
// the loopback interface. In two terminals:
//
//	go build -o hello ./examples/hello
//	./hello               # subscribes, and prints messages
//	./hello good morning  # publishes a line
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/fanfaremq/fanfare/pubsub"
)

func main() {
	url := flag.String("url", "udp://?iface=lo", "fabric; with iface=eth0 the two sides can run on different hosts")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "hello subscribes and prints messages; hello TEXT publishes TEXT. Flags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	bus, err := pubsub.Open(ctx, *url)
	check(err)
	defer bus.Close() // a publisher waits here until subscribers have received everything

	if text := strings.Join(flag.Args(), " "); text != "" {
		pub, err := bus.Publisher("greetings")
		check(err)
		fmt.Println("Publishing when a subscriber is present. To start one: ./hello")
		check(pub.WaitSubscribers(ctx, 1))
		check(pub.Publish(ctx, []byte(text)))
		return
	}

	sub, err := bus.Subscribe("greetings")
	check(err)
	fmt.Println("Waiting for greetings. In a second terminal: ./hello good morning")
	for msg, err := range sub.Messages(ctx) { // until Ctrl-C
		check(err) // a *pubsub.GapError if messages were lost permanently
		fmt.Printf("%s\n", msg.Data)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
