package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fanfare web prints the address of its page, serves it, and ends when interrupted.
func TestWeb(t *testing.T) {
	programOnly(t)
	shown(t)
	p := spawn(t, "web", "-listen", "localhost:0", "-json")
	for !strings.HasSuffix(p.stdout.String(), "}\n") {
		time.Sleep(time.Millisecond)
	}
	var page struct{ Type, URL string }
	if err := json.Unmarshal([]byte(p.stdout.String()), &page); err != nil || page.Type != "page" {
		t.Fatalf(`web writes %s, error %v, want an object of type "page"`, p.stdout.String(), err)
	}
	resp, err := http.Get(page.URL)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(text), "<title>Fanfare") {
		t.Errorf("page %s, error %v, want the title Fanfare", text, err)
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	p.end(t, 130)
	if s := p.stderr.String(); !strings.Contains(s, "serving the page at "+page.URL) {
		t.Errorf("standard error, want the page's URL:\n%s", s)
	}
}
