package pubsub

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// loud is an option with which Open logs a warning: a receive buffer larger than systems grant, except to root.
const loud = "&rcvbuf=1073741824"

// The first log line of a bus reports that its groups are open, even if the fabric logs something, too. It is absent
// with keys, and if the system keeps other users out. docs/security.md.
func TestFirstLogLineReportsOpenGroups(t *testing.T) {
	set, err := NewKeySet(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, url string
		keys      KeyProvider
		open      bool
	}{
		{"udp", udpURL(t) + loud, nil, true},
		{"udp with keys", udpURL(t) + loud, StaticKeys(set), false},
		{"mem", memURL(t), nil, false},
		{"a leg of two is udp", memURL(t) + " " + udpURL(t) + loud, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			urls := strings.Fields(c.url)
			b, err := Config{Keys: c.keys, Logger: slog.New(slog.NewTextHandler(&out, nil))}.Open(testContext(t), urls[0], urls[1:]...)
			if err != nil {
				t.Fatal(err)
			}
			b.Close()
			first, rest, _ := strings.Cut(out.String(), "\n")
			if says := strings.Contains(first, "groups are open"); says != c.open || strings.Contains(rest, "groups are open") {
				t.Errorf("the log begins with %q, and goes on\n%s", first, rest)
			}
		})
	}
}
