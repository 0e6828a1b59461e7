package pubsub

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/groupmap"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// busFiles are the files of keys= sign= and trust= in the URLs of a bus.
type busFiles struct{ keys, sign, trust string }

// add adds the files of one URL. It fails if another URL names a different file.
func (x *busFiles) add(f *fabricurl.Fabric) error {
	for _, o := range []struct {
		name  string
		is    *string
		given string
	}{{"keys", &x.keys, f.Keys}, {"sign", &x.sign, f.Sign}, {"trust", &x.trust, f.Trust}} {
		if *o.is != "" && o.given != "" && *o.is != o.given {
			return fmt.Errorf("%s=%s, and %s=%s in the URL of another leg: all legs carry the same packets", o.name, o.given, o.name, *o.is)
		}
		*o.is = cmp.Or(*o.is, o.given)
	}
	return nil
}

// parseFabrics parses the URLs of a bus. Those that have map=, keys=, sign= or trust= must agree.
func parseFabrics(urls []string) (list []*fabricurl.Fabric, s groupmap.Strategy, files busFiles, err error) {
	if len(urls) > transport.MaxLegs {
		return nil, s, files, &URLError{urls[transport.MaxLegs], fmt.Errorf("%d URLs are more legs than a bus can have: %d", len(urls), transport.MaxLegs)}
	}
	mapping := ""
	for _, url := range urls {
		f, err := fabricurl.Parse(url)
		if err != nil {
			return nil, s, files, openError(f, err)
		}
		for _, other := range list {
			if other.String() == f.String() {
				return nil, s, files, &URLError{f.String(), fmt.Errorf("it is given twice: each leg must be another path")}
			}
		}
		list = append(list, f)
		if err := files.add(f); err != nil {
			return nil, s, files, &URLError{f.String(), err}
		}
		if f.Mapping == "" {
			continue
		}
		if mapping != "" && mapping != f.Mapping {
			return nil, s, files, &URLError{f.String(), fmt.Errorf("map=%s, and map=%s in the URL of another leg: all legs map topics to groups in the same way", f.Mapping, mapping)}
		}
		mapping = f.Mapping
		if s, err = groupmap.Parse(mapping); err != nil {
			return nil, s, files, &URLError{f.String(), err}
		}
	}
	return list, s, files, nil
}

// openedFabric describes the fabric that a bus was opened on.
type openedFabric struct {
	urls    []string          // without passwords, one for each leg; nil: opened by OpenTransport
	local   bool              // within this process
	open    bool              // any host on the network can read and forge messages
	buffers []inspect.Buffers // of the legs that have sockets
	// interfaces has the name of the network interface, or the directory of shared memory, of each leg that other
	// processes can reach.
	interfaces []string
	since      time.Time
}

// openFabrics opens the transport of a bus; for several URLs one transport over all legs. Faults are injected into
// each leg separately.
func (c *Config) openFabrics(list []*fabricurl.Fabric, faults faulty.Config) (transport.Transport,
	openedFabric, error) {
	var all []transport.Transport
	opened := openedFabric{local: true}
	fail := func(err error) (transport.Transport, openedFabric, error) {
		for _, t := range all {
			endTransport(t)
		}
		return nil, opened, err
	}
	for _, f := range list {
		opened.local = opened.local && f.Local()
		t, err := f.Open(c.Logger)
		if err != nil {
			return fail(openError(f, err))
		}
		if t, ok := t.(*udp.Transport); ok {
			limits := t.SocketLimits()
			warnLimits(c.Logger, limits)
			opened.buffers = append(opened.buffers, inspect.Buffers(limits))
		}
		if t, ok := t.(interface{ Interface() string }); ok && !f.Local() {
			opened.interfaces = append(opened.interfaces, t.Interface())
		}
		if c.Faults != "" {
			t = faulty.New(t, faults)
			faults.Seed++
		}
		all, opened.urls = append(all, t), append(opened.urls, f.String())
	}
	if len(all) == 1 {
		return all[0], opened, nil
	}
	t, err := legs.New(all, opened.urls)
	if err != nil {
		return fail(&URLError{opened.urls[len(opened.urls)-1], err})
	}
	return t, opened, nil
}

// padding takes Config.Pad from the option pad= of the URLs. Those that have it must agree.
func (c *Config) padding(list []*fabricurl.Fabric) error {
	given := ""
	for _, f := range list {
		n, err := strconv.Atoi(cmp.Or(f.Pad, "1"))
		switch {
		case f.Pad == "":
			continue
		case err != nil || n < 1 || n > wire.MaxPacket:
			return &URLError{f.String(), fmt.Errorf("pad=%s must be a number of bytes from 1 (no padding) to %d", f.Pad, wire.MaxPacket)}
		case given != "" && given != f.Pad:
			return &URLError{f.String(), fmt.Errorf("pad=%s, and pad=%s in the URL of another leg: all legs carry the same packets", f.Pad, given)}
		case c.Pad != 0 && given == "":
			return &URLError{f.String(), fmt.Errorf("pad=%s in the URL, and Config.Pad is %d: leave one out", f.Pad, c.Pad)}
		}
		given, c.Pad = f.Pad, n
	}
	return nil
}

// endTransport closes a transport on which no bus runs.
func endTransport(t transport.Transport) {
	t.Close()
	for t.Poll(transport.NewBatch(1)) == nil { // until Poll reports the end
		_ = t.Wait(-1)
	}
}
