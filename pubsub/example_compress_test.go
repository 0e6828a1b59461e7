package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/fanfaremq/fanfare/pubsub"
)

// A publisher compresses its packets with a dictionary that its subscribers have, too: they take fewer bytes on the
// wire.
func ExampleConfig_compress() {
	ctx := context.Background()
	const url = "mem://compressed"
	// fanfare dict makes better ones from recorded messages.
	dictionary := []byte(strings.Repeat(`{"symbol":"FFR","bid":100.25,"ask":100.50}`, 2))

	from, err := pubsub.Config{Compress: pubsub.CompressZstd, Dictionaries: [][]byte{dictionary}}.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer from.Close()
	to, err := pubsub.Config{Dictionaries: [][]byte{dictionary}}.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()

	sub, err := to.Subscribe("quotes")
	if err != nil {
		log.Fatal(err)
	}
	pub, err := from.Publisher("quotes")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for i := range 1000 {
		if err := pub.Publish(ctx, fmt.Appendf(nil, `{"symbol":"FFR","bid":100.%02d,"ask":101.%02d}`, i%100, i%100)); err != nil {
			log.Fatal(err)
		}
	}
	m, err := sub.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(m.Data))

	if err := pub.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	p := from.Stats().Publications[0]
	fmt.Println("fewer bytes on the wire:", p.BytesSent < p.BytesUnpacked)
	// Output:
	// {"symbol":"FFR","bid":100.00,"ask":101.00}
	// fewer bytes on the wire: true
}
