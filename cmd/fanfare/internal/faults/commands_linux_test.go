package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/cli"
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/web"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// TestMain gives this process its own socket directory, for the commands that read it.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fanfare-") // names of sockets must be short
	if err != nil {
		panic(err)
	}
	os.Setenv(inspect.Variable, filepath.Join(dir, "s"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// command runs a command that reads this process, and returns its JSON objects.
func (w *world) command(args ...string) (objects []map[string]any) {
	var out, stderr strings.Builder
	cli.Run(w.ctx, args, strings.NewReader(""), &out, &stderr)
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			w.Fatalf("%q writes %q, which is no JSON object: %v\n%s", args, line, err, &stderr)
		}
		objects = append(objects, o)
	}
	return objects
}

// fanfareLoss is the output of fanfare loss for this bus: its causes.
func (w *world) fanfareLoss() string {
	var b strings.Builder
	for _, o := range w.command("loss", "-json") {
		if strings.Contains(fmt.Sprint(o["bus"]), busName(w)) {
			fmt.Fprintf(&b, "%v %v: %v\n", o["type"], o["cause"], o["do"])
		}
	}
	return b.String()
}

// fanfareTop is the output of fanfare top for this bus: causes, events, subscribers and legs.
func (w *world) fanfareTop() string {
	var b strings.Builder
	for _, o := range w.command("top", "-once", "-json", "-interval", "200ms") {
		for view, of := range map[string][]string{"losses": {"cause"}, "events": {"event"}, "subscribers": {"name", "state"}, "legs": {"url", "up"}, "buses": {"state", "problem"}} {
			rows, _ := o[view].([]any)
			for _, x := range rows {
				row, _ := x.(map[string]any)
				if row["bus"] != busName(w) {
					continue
				}
				if e, ok := row["event"].(map[string]any); ok {
					row["event"] = e["kind"]
				}
				for _, name := range of {
					fmt.Fprint(&b, row[name], " ")
				}
				fmt.Fprintln(&b)
			}
		}
	}
	return b.String()
}

// fanfareWeb is what the page of fanfare web sends to a new browser about this bus.
func (w *world) fanfareWeb() string {
	url := pageURL()
	if url == "" {
		w.Fatal("no page")
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	if err != nil {
		w.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	var b strings.Builder
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			w.Fatalf("no frame: %v", err)
		}
		var frame struct {
			Findings []struct{ Kind, Cause, Where string } `json:"findings"`
		}
		text, ok := strings.CutPrefix(line, "data: {\"sequence\"")
		if !ok {
			continue // the frame of the previous second; the rest is names
		}
		if err := json.Unmarshal([]byte("{\"sequence\""+text), &frame); err != nil {
			w.Fatal(err)
		}
		for _, f := range frame.Findings {
			if strings.Contains(f.Where+",", "bus "+busName(w)+",") {
				fmt.Fprintln(&b, f.Kind, f.Cause)
			}
		}
		return b.String()
	}
}

// pageURL serves the page of this process's buses until the process ends.
var pageURL = sync.OnceValue(func() string {
	read := func(ctx context.Context) ([]inspect.Seen, error) { return inspect.ReadAll(ctx) }
	s, err := web.Serve("localhost:0", false, read)
	if err != nil {
		return ""
	}
	return "http://" + s.Addr()
})
