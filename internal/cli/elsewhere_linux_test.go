package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/cli/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// top sees the processes of another host through the fanfare web there, and what nobody says of
// itself on the wire.
func TestTopOfOtherHosts(t *testing.T) {
	url := loopbackURL(t)
	shown(t)
	spawn(t, "sub", "-t", url, "-q", "md.far")
	web := spawn(t, "web", "-listen", "localhost:0", "-json")
	for !strings.HasSuffix(web.stdout.String(), "}\n") {
		time.Sleep(time.Millisecond)
	}
	var page struct{ URL string }
	if err := json.Unmarshal([]byte(web.stdout.String()), &page); err != nil {
		t.Fatal(err)
	}
	t.Setenv(inspect.Variable, inspect.Off) // from here on it is another host's
	pub := spawn(t, "pub", "-t", url, "-q", "-wait", "1", "-name", "prices", "md.far")
	pub.stdin.Write([]byte("one\ntwo\n"))
	for far, wire := false, false; !far || !wire; {
		if testContext(t).Err() != nil {
			t.Fatalf("far %v, on the wire %v", far, wire)
		}
		p := spawn(t, "top", "-once", "-json", "-interval", "200ms", "-t", url, page.URL)
		p.end(t, 0)
		var f struct {
			Topics        []top.Topic
			Subscriptions []top.Subscription
		}
		if err := json.Unmarshal([]byte(p.stdout.String()), &f); err != nil {
			t.Fatalf("%s: %v", p.stdout.String(), err)
		}
		for _, s := range f.Subscriptions {
			far = far || s.Topics[0] == "md.far" && s.Messages == 2 && strings.Contains(s.Process, "]@")
		}
		for _, x := range f.Topics {
			wire = wire || x.Topic == "md.far" && x.Messages == 2 && x.Bus == "prices" && x.PID == 0 && strings.Contains(x.Process, ":")
		}
	}
	p := spawn(t, "top", "-once", "127.0.0.1:1")
	p.end(t, 1)
	if s := p.stderr.String(); !strings.Contains(s, "127.0.0.1:1") || !strings.Contains(s, "refused") {
		t.Errorf("of a host that does not listen: %s", s)
	}
}
