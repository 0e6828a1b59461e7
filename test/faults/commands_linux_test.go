package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/cli"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// TestMain has the socket of this process in a directory of its own, for the commands that
// look at it.
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

// command runs a command that looks at this process, and returns the JSON objects that it
// writes.
func (w *world) command(args ...string) (objects []map[string]any) {
	var out, said strings.Builder
	cli.Run(w.ctx, args, strings.NewReader(""), &out, &said)
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			w.Fatalf("%q writes %q: %v\n%s", args, line, err, &said)
		}
		objects = append(objects, o)
	}
	return objects
}

// fanfareLoss are the causes that fanfare loss has of this bus.
func (w *world) fanfareLoss() string {
	var b strings.Builder
	for _, o := range w.command("loss", "-json") {
		if strings.Contains(fmt.Sprint(o["bus"]), busName(w)) {
			fmt.Fprintf(&b, "%v %v: %v\n", o["type"], o["cause"], o["do"])
		}
	}
	return b.String()
}

// fanfareTop are the causes that fanfare top has of this bus.
func (w *world) fanfareTop() string {
	var b strings.Builder
	for _, o := range w.command("top", "-once", "-json", "-interval", "200ms") {
		losses, _ := o["losses"].([]any)
		for _, x := range losses {
			if row, _ := x.(map[string]any); strings.Contains(fmt.Sprint(row["bus"]), busName(w)) {
				fmt.Fprintln(&b, row["cause"])
			}
		}
	}
	return b.String()
}
