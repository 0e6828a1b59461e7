package reliable

import (
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// announce returns an announce of one topic.
func announce(epoch events.ID, asOf, id uint64, name string) []byte {
	h := wire.Header{GroupTag: 9, Publisher: 7, Epoch: epoch}
	p := wire.AppendAnnounceHeader(nil, h, asOf, 0, 1)
	p = wire.AppendTopicState(p, id, 5, name)
	wire.FinishAnnounce(p, 1)
	return p
}

// Two names with the same id: docs/vectors/hashes.json.
const name, twin = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"

// A publisher with another topic under the id of a wanted one is reported once, as a typed error,
// and again for later subscriptions; one with the right name is not. docs/protocol §3.6.
func TestTopicCollisionOfAnotherProcess(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	setTopics(r, 0, []string{name})
	id := wire.TopicID(name)
	r.Handle(1, 5, data(3, 0, 0))
	st := r.Streams()[0]
	r.Handle(2, 5, announce(3, 1, id, name))
	r.Handle(2, 5, announce(3, 1, id+1, twin))
	if len(l.collisions) != 0 || !st.Relevant() {
		t.Fatalf("with the right name: collisions %v, relevant %v", l.collisions, st.Relevant())
	}
	for range 3 {
		r.Handle(3, 5, announce(3, 1, id, twin))
	}
	want := events.TopicCollisionError{ID: events.ID(id), Known: name, Other: twin, Publisher: 7}
	if len(l.collisions) != 1 || l.collisions[0] != want || r.Stats().Collisions != 1 {
		t.Fatalf("collisions %+v, counter %d; want once %+v", l.collisions, r.Stats().Collisions, want)
	}
	if err := error(&l.collisions[0]); !errors.Is(err, events.ErrTopicCollision) {
		t.Errorf("%v does not match ErrTopicCollision", err)
	}
	setTopics(r, 4, []string{name, "c"})
	r.Handle(5, 5, announce(3, 1, id, twin))
	if err := st.Collided(id); len(l.collisions) != 1 || err == nil || *err != want || st.Collided(id+1) != nil {
		t.Errorf("reported again: %v; for a later subscription: %v", l.collisions, err)
	}
	setTopics(r, 5, []string{"c"})
	setTopics(r, 5, []string{name}) // begins again
	if st.Collided(id) != nil {
		t.Error("a collision of a topic that is no longer wanted is still stored")
	}
	r.Handle(5, 5, announce(3, 1, id, twin))
	// A name in another stream is irrelevant for this one, and a publisher with only the other name is not relevant.
	r.Handle(6, 5, data(4, 0, 0)) // another instance
	r.Handle(6, 5, announce(4, 1, id, twin))
	if st := r.Streams()[1]; st.Epoch != 4 || st.Relevant() || len(l.collisions) != 3 {
		t.Errorf("epoch %d relevant %v collisions %d", st.Epoch, st.Relevant(), len(l.collisions))
	}
}

// Any host that can send packets can assign any name to any id. A name with another id is counted,
// and has no other effect. docs/protocol §3.6.
func TestWrongNameIsNoCollision(t *testing.T) {
	for what, said := range map[string]string{"another id's": "a.c", "no topic's": "a..b", "a pattern": "a.*", "escapes": "\x1b[2J"} {
		l := &log{}
		r := newReceiver(t, l, nil)
		id := wire.TopicID("a.b")
		r.Handle(1, 5, data(3, 0, 0))
		r.Handle(2, 5, announce(3, 1, id, said))
		if st := r.Streams()[0]; len(l.collisions) != 0 || st.Collided(id) != nil || st.Relevant() || r.Stats().NamesRefused != 1 {
			t.Errorf("%s: %v, relevant %v, %d names refused", what, l.collisions, st.Relevant(), r.Stats().NamesRefused)
		}
		r.Handle(3, 5, announce(3, 1, id, "a.b"))
		if st := r.Streams()[0]; !st.Relevant() || r.Stats().NamesRefused != 1 {
			t.Errorf("%s: the right name after it is not accepted", what)
		}
	}
}

// A publisher may have a wanted topic until it has announced all its topics, without that one.
func TestMayConcern(t *testing.T) {
	for said, want := range map[string]bool{"": true, "wanted": true, "other": false} {
		r := newReceiver(t, &log{}, nil)
		setTopics(r, 0, []string{"wanted"})
		r.Handle(1, 5, data(3, 0, 0))
		if said != "" {
			r.Handle(2, 5, announce(3, 1, wire.TopicID(said), said))
		}
		if got := r.Streams()[0].MayConcern(); got != want {
			t.Errorf("%v after an announce of %q", got, said)
		}
	}
}
