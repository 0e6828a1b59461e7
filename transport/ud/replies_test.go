package ud_test

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// A transport that has joined a group reads replies only by Poll, so that the sender's goroutine does not receive
// packets of the group.
func TestReadRepliesWithGroups(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	s := r.sender(pub, 0)
	sub.retain = true
	r.send(s, "hello, all")
	r.want(sub, 0, "hello, all")
	read := func() (got string) {
		s.(transport.ReplyReader).ReadReplies(func(p []byte) { got += string(p) })
		return got
	}
	reply := func(text string) {
		if err := sub.Reply(sub.peer, []byte(text)); err != nil {
			t.Fatal(err)
		}
		r.f.AdvanceTo(r.f.Now() + tick) // without a Poll
	}
	reply("one")
	if got := read(); got != "one" {
		t.Errorf("read %q, want one", got)
	}
	r.join(pub, 1)
	reply("two")
	if got := read(); got != "" {
		t.Errorf("read %q although a group is joined, want nothing", got)
	}
	r.want(pub, transport.Unicast, "two")
}
