package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Both sides run on one host, over loopback, with text and with JSON output.
func TestDoctorPeer(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	group := fmt.Sprintf("239.20.255.3:%d", testenv.Port(t))
	l := start(t, nil, "doctor", "-listen", "-iface", "lo", "-group", group)
	wantText := "Listening on lo (127.0.0.1). On the other host: fanfare doctor -peer 127.0.0.1 -group " + group + "\n"
	await(t, "the listener", func() bool { return l.stdout.String() == wantText })
	r := runWith(t.Context(), "", "doctor", "-peer", "127.0.0.1", "-group", group, "-for", "0s")
	for _, want := range []string{
		"ok    peer      the peer (", "ok    clock     the clocks agree", "ok    multicast multicast passes to the peer: ", "ok    multicast multicast passes from the peer: ",
		"packets of 65535 bytes pass to the peer", "The network is ready",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
		}
	}
	if r.code != exitOK && r.code != exitWarnings || r.stderr != "" {
		t.Errorf("exit code %d, standard error %q, want %d or %d and nothing", r.code, r.stderr, exitOK, exitWarnings)
	}
	r = runWith(t.Context(), "", "doctor", "-peer", "127.0.0.1", "-iface", "lo", "-group", group, "-for", "0s", "-json")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var network struct {
		Type string
		To   struct{ Multicast struct{ Sent, Received int } }
	}
	if err := json.Unmarshal([]byte(lines[0]), &network); err != nil || network.Type != "network" || network.To.Multicast.Sent != 200 || network.To.Multicast.Received == 0 {
		t.Errorf("error %v, network %+v in %s, want 200 multicast packets sent and some received", err, network, lines[0])
	}
	if last := lines[len(lines)-1]; !strings.Contains(last, `"summary"`) || !json.Valid([]byte(last)) {
		t.Errorf("the last line is %s, want a JSON object of the summary", last)
	}
	if text := l.stdout.String(); strings.Count(text, ".\n") != 2 {
		t.Errorf("the listener printed the following, want 2 sentences:\n%s", text)
	}
	l.cancel(nil)
	l.end(t, exitOK)
}

// Without an answer the finding suggests a remedy.
func TestDoctorPeerNoAnswer(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	r := runWith(t.Context(), "", "doctor", "-peer", "127.0.0.1", "-group", fmt.Sprintf("239.20.255.3:%d", testenv.Port(t)))
	if r.code != exitIncomplete || !strings.Contains(r.stdout, "no answer from 127.0.0.1:") || !strings.Contains(r.stdout, "try: fanfare doctor -listen") || !strings.Contains(r.stdout, "not ready") {
		t.Errorf("exit code %d, want %d and advice to run fanfare doctor -listen:\n%s%s", r.code, exitIncomplete, r.stdout, r.stderr)
	}
}
