package cli

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// top and web show a publisher on the network that has no socket here.
func TestNetworkPublishersAreShown(t *testing.T) {
	testenv.Slow(t)
	programOnly(t)
	url := loopbackURL(t)
	shown(t)
	spawn(t, "sub", "-t", url, "-q", "md.far")
	t.Setenv(inspect.Variable, inspect.Off)
	pub := spawn(t, "pub", "-t", url, "-q", "-wait", "1", "-name", "prices", "md.far")
	pub.stdin.Write([]byte("one\ntwo\n"))
	ctx := testContext(t)
	for shown := false; !shown; {
		if ctx.Err() != nil {
			t.Fatal("top does not show the publisher")
		}
		p := spawn(t, "top", "-once", "-json", "-interval", "200ms", "-t", url)
		if <-p.waited; p.cmd.ProcessState.ExitCode() != 0 {
			continue // not detected in time, as on a busy host
		}
		var f struct{ Topics []top.Topic }
		if err := json.Unmarshal([]byte(p.stdout.String()), &f); err != nil {
			t.Fatalf("ls writes no JSON object: %s: %v", p.stdout.String(), err)
		}
		for _, x := range f.Topics {
			shown = shown || x.Topic == "md.far" && x.Messages == 2 && x.Bus == "prices" && x.PID == 0 && strings.Contains(x.Process, ":")
		}
	}
	web := spawn(t, "web", "-listen", "localhost:0", "-json", "-t", url)
	for !strings.HasSuffix(web.stdout.String(), "}\n") {
		if ctx.Err() != nil {
			t.Fatalf("the web command serves no page: %s", web.stderr.String())
		}
		time.Sleep(time.Millisecond)
	}
	var page struct{ URL string }
	if err := json.Unmarshal([]byte(web.stdout.String()), &page); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page.URL+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for in, line := bufio.NewReader(resp.Body), ""; !strings.Contains(line, `"name":"prices"`); {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatalf("the page does not show the publisher: %v", err)
		}
	}
}
