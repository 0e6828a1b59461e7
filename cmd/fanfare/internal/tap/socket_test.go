package tap

import (
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/dissect"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

func openMem(t *testing.T, name string) transport.Transport {
	t.Helper()
	u, err := url.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mem.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := mem.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// A socket receives everything that a publisher sends to its groups, including repairs and
// heartbeats, and sends nothing: no hello, no status, no NAK. docs/protocol §2.6.
func TestSocketAnswersNothing(t *testing.T) {
	name := "mem://" + t.Name()
	s, err := OpenSocket(openMem(t, name), nil, func(group int, err error) { t.Errorf("group %d: %v", group, err) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bus, err := pubsub.Config{Name: "feed", Linger: -1}.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := bus.Publisher("a.b")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := pub.Publish(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := NewObserver(NewGroups(s.Addresses()), func(f Finding) {
		if f.Kind != KindStream && f.Kind != KindEnd {
			t.Errorf("finding %s: %s, want only the publisher's beginning and end", f.Kind, f.Text)
		}
	})
	watchdog := time.AfterFunc(time.Minute, s.Interrupt)
	defer watchdog.Stop()
	for messages := uint64(0); messages < 20; {
		p, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if messages == 0 && p.Address == "" || p.From == "" || p.Time.IsZero() {
			t.Errorf("packet %+v lacks its address, its sender or its time", p)
		}
		o.Locate(p)
		o.Observe(p)
		if streams := o.Streams(); len(streams) > 0 {
			messages = streams[0].Messages
		}
	}
	if x := o.Streams()[0]; x.Name != "feed" || !x.GroupKnown || x.Receivers != 0 {
		t.Errorf("stream %+v, want publisher feed in a known group and no receivers", x)
	}
	if st := bus.Stats(); st.Transport.PacketsReceived != 0 {
		t.Errorf("the publisher received %d packets, want none", st.Transport.PacketsReceived)
	}
	s.Interrupt()
	for {
		if _, err := s.Next(); errors.Is(err, ErrInterrupted) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(bus.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// Only the requested groups are joined.
func TestSocketGroups(t *testing.T) {
	name := "mem://" + t.Name()
	s, err := OpenSocket(openMem(t, name), []int{2, 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sender := openMem(t, name)
	defer sender.Close()
	packet := dataPacket(1, 0)
	for g := range 8 {
		out, err := sender.NewSender(g)
		if err != nil {
			t.Fatal(err)
		}
		mem, err := sender.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Free(mem)
		copy(mem, packet)
		for {
			if _, err = out.Send(&transport.Outbound{Data: mem, Stride: len(packet), Count: 1, Lens: []uint16{uint16(len(packet))}}); err == nil {
				break
			} else if !errors.Is(err, transport.ErrNotReady) {
				t.Fatal(err)
			}
			sender.Poll(transport.NewBatch(4))
		}
		defer out.Close()
	}
	var got []string
	for len(got) < 2 {
		p, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if r := dissect.Read(p.Data); r.Type != wire.TypeData {
			t.Errorf("the packet has type %v, want data", r.Type)
		}
		got = append(got, p.Address)
	}
	if want := []string{s.Addresses()[2], s.Addresses()[5]}; !slices.Equal(got, want) {
		t.Errorf("got packets of %q, want %q", got, want)
	}
}
