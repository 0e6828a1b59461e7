package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// browser is a Chromium without a window, controlled by the Chrome DevTools Protocol over pipes.
type browser struct {
	t       *testing.T
	out     *os.File
	session string

	mu     sync.Mutex
	next   int                         // under mu
	waits  map[int]chan map[string]any // under mu
	errors []string                    // under mu: errors of the script and violations of the policy
	gone   chan struct{}               // closed when the browser has ended
}

// startBrowser starts a browser with an empty page.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	cmd := testenv.Browser(t, "--remote-debugging-pipe")
	in, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b := &browser{t: t, out: commands, waits: make(map[int]chan map[string]any), gone: make(chan struct{})}
	t.Cleanup(func() {
		commands.Close()
		cmd.Process.Kill()
		cmd.Wait()
		<-b.gone
	})
	go b.listen(answers)
	target := b.call("Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	b.session = b.call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil)
	}
	return b
}

// listen receives answers, and errors that the page reports.
func (b *browser) listen(answers *os.File) {
	defer close(b.gone)
	defer answers.Close()
	r := bufio.NewReaderSize(answers, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params map[string]any
			Result map[string]any
			Error  any
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0:
			if m.Error != nil {
				m.Result = map[string]any{"error": m.Error}
			}
			if c := b.waits[m.ID]; c != nil {
				c <- m.Result
			}
			delete(b.waits, m.ID)
		case m.Method == "Runtime.exceptionThrown":
			b.errors = append(b.errors, fmt.Sprint(m.Params))
		case m.Method == "Log.entryAdded":
			if e, _ := m.Params["entry"].(map[string]any); e["level"] == "error" && e["source"] != "network" {
				b.errors = append(b.errors, fmt.Sprint(e["text"]))
			}
		}
		b.mu.Unlock()
	}
}

// call calls a method of the browser and waits for the answer.
func (b *browser) call(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.mu.Lock()
	b.next++
	c := make(chan map[string]any, 1)
	b.waits[b.next] = c
	m := map[string]any{"id": b.next, "method": method}
	b.mu.Unlock()
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.out.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	select {
	case result := <-c:
		if result["error"] != nil {
			b.t.Fatalf("the browser's method %s failed: %v", method, result["error"])
		}
		return result
	case <-b.gone:
		b.t.Fatalf("%s: the browser has ended", method)
	case <-time.After(time.Minute):
		b.t.Fatalf("the browser does not answer %s", method)
	}
	return nil
}

// open shows a page of a given width and height, dark or light.
func (b *browser) open(url string, wide, tall int, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": wide, "height": tall, "deviceScaleFactor": 1, "mobile": wide < 600})
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
	b.call("Page.navigate", map[string]any{"url": url})
}

// eval returns the value of an expression in the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	r := b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if r["exceptionDetails"] != nil {
		b.t.Fatalf("the expression %s failed: %v", expression, r["exceptionDetails"])
	}
	result, _ := r["result"].(map[string]any)
	return result["value"]
}

// await waits until an expression is true.
func (b *browser) await(expression string) {
	b.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if b.eval(expression) == true {
			return
		}
	}
	b.t.Fatalf("the expression %s is never true; the page says:\n%v", expression, b.eval("document.body.innerText"))
}

// complaints returns the errors of the page's script and violations of its policy.
func (b *browser) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.errors, "\n")
}
