package cli

import (
	"strings"
	"testing"
)

// The summary names the side that dropped datagrams, for each kind of fabric.
func TestDroppedBy(t *testing.T) {
	for _, c := range []struct{ urls, want string }{
		{"udp://", "7 datagrams dropped by this host: its receive queue was full"},
		{"shm://desk", "7 datagrams dropped by publishers, because their queue to this process was full (queue= in the URL)"},
		{"shm://desk shm://two?dir=/x", "7 datagrams dropped by publishers, because"},
		{"shm://desk udp://", "7 datagrams dropped, because the receive queue was full"},
	} {
		s := &sub{common: common{urls: strings.Fields(c.urls)}}
		if got := s.line(&subSummary{jsonReceived: jsonReceived{Overflow: 7}}); !strings.Contains(got, c.want) {
			t.Errorf("%s: summary %q lacks %q", c.urls, got, c.want)
		}
	}
	p := new(pub)
	if got := p.line(&pubSummary{NoMemory: 1}); !strings.HasSuffix(got, "1 packet lost because shared memory was full (see fanfare doctor)") {
		t.Errorf("summary %q lacks the packet lost in full shared memory", got)
	}
	if got := p.line(&pubSummary{}); strings.Contains(got, "memory") {
		t.Errorf("summary %q names shared memory, but no packet was lost there", got)
	}
}
