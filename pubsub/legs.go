package pubsub

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/groupmap"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// parseFabrics reads the URLs of a bus, of which one says how topics map to groups, or all
// that say so agree.
func parseFabrics(urls []string) (list []*fabricurl.Fabric, s groupmap.Strategy, err error) {
	if len(urls) > transport.MaxLegs {
		return nil, s, &URLError{urls[transport.MaxLegs], fmt.Errorf("%d URLs are more legs than a bus can have: %d", len(urls), transport.MaxLegs)}
	}
	mapping := ""
	for _, url := range urls {
		f, err := fabricurl.Parse(url)
		if err != nil {
			return nil, s, openError(f, err)
		}
		for _, other := range list {
			if other.String() == f.String() {
				return nil, s, &URLError{f.String(), fmt.Errorf("it is given twice: each leg is a way of its own")}
			}
		}
		list = append(list, f)
		if f.Mapping == "" {
			continue
		}
		if mapping != "" && mapping != f.Mapping {
			return nil, s, &URLError{f.String(), fmt.Errorf("map=%s, and map=%s in the URL of another leg: topics map to groups in one way", f.Mapping, mapping)}
		}
		mapping = f.Mapping
		if s, err = groupmap.Parse(mapping); err != nil {
			return nil, s, &URLError{f.String(), err}
		}
	}
	return list, s, nil
}

// openFabrics opens the transport of a bus: of several URLs one over all, its legs. Faults
// befall each leg by itself.
func (c *Config) openFabrics(list []*fabricurl.Fabric, faults faulty.Config) (transport.Transport, error) {
	var all []transport.Transport
	var names []string
	fail := func(err error) (transport.Transport, error) {
		for _, t := range all {
			endTransport(t)
		}
		return nil, err
	}
	for _, f := range list {
		t, err := f.Open(c.Logger)
		if err != nil {
			return fail(openError(f, err))
		}
		if t, ok := t.(*udp.Transport); ok {
			warnLimits(c.Logger, t.SocketLimits())
		}
		if c.Faults != "" {
			t = faulty.New(t, faults)
			faults.Seed++
		}
		all, names = append(all, t), append(names, f.String())
	}
	if len(all) == 1 {
		return all[0], nil
	}
	t, err := legs.New(all, names)
	if err != nil {
		return fail(&URLError{names[len(names)-1], err})
	}
	return t, nil
}

// endTransport closes a transport that no bus runs on.
func endTransport(t transport.Transport) {
	t.Close()
	for t.Poll(transport.NewBatch(1)) == nil { // which ends it
		_ = t.Wait(-1)
	}
}
