package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// otherHost has a subscriber that its web shows at page, as on another host, and a publisher that is
// heard on the wire alone.
func otherHost(t *testing.T) (url, page string, pub *process) {
	url = loopbackURL(t)
	shown(t)
	spawn(t, "sub", "-t", url, "-q", "md.far")
	page = spawn(t, "web", "-listen", "localhost:0", "-json").page(t)
	t.Setenv(inspect.Variable, inspect.Off) // from here on it is another host's
	return url, page, spawn(t, "pub", "-t", url, "-q", "-wait", "1", "-name", "prices", "md.far")
}

// top sees the processes of another host through the fanfare web there, and what nobody says of
// itself on the wire.
func TestTopOfOtherHosts(t *testing.T) {
	testenv.Slow(t)
	programOnly(t)
	url, page, pub := otherHost(t)
	pub.stdin.Write([]byte("one\ntwo\n"))
	ctx := testContext(t)
	for far, wire := false, false; !far || !wire; {
		if ctx.Err() != nil {
			t.Fatalf("far %v, on the wire %v", far, wire)
		}
		p := spawn(t, "top", "-once", "-json", "-interval", "200ms", "-t", url, page)
		if <-p.waited; p.cmd.ProcessState.ExitCode() != 0 {
			continue // somebody has not answered in time, as on a busy host
		}
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

// page is where a fanfare web that runs has its page.
func (p *process) page(t *testing.T) string {
	t.Helper()
	ctx := testContext(t)
	for !strings.HasSuffix(p.stdout.String(), "}\n") {
		if ctx.Err() != nil {
			t.Fatalf("no page: %s", p.stderr.String())
		}
		time.Sleep(time.Millisecond)
	}
	var page struct{ URL string }
	if err := json.Unmarshal([]byte(p.stdout.String()), &page); err != nil {
		t.Fatal(err)
	}
	return page.URL
}

// web shows what the web of another host says, and who is heard on the wire; it passes on neither.
func TestWebOfOtherHosts(t *testing.T) {
	testenv.Slow(t)
	programOnly(t)
	url, far, pub := otherHost(t)
	pub.stdin.Write([]byte("one\n"))
	near := spawn(t, "web", "-listen", "localhost:0", "-json", "-t", url, far+"snapshots").page(t)
	r, err := http.NewRequestWithContext(testContext(t), http.MethodGet, near+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for asked, heard := false, false; !asked || !heard; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("asked %v, heard %v: %v", asked, heard, err)
		}
		asked = asked || strings.Contains(line, "]@")
		heard = heard || strings.Contains(line, `"name":"prices"`)
	}
	resp, err = http.Get(near + "snapshots")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "other hosts only") {
		t.Errorf("what it passes on: %s, %s, %v", resp.Status, text, err)
	}
}
