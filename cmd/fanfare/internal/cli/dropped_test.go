package cli

import (
	"strings"
	"testing"
)

// Who has dropped what is said as it is, over each kind of fabric.
func TestDroppedBy(t *testing.T) {
	for _, c := range []struct{ urls, want string }{
		{"udp://", "7 datagrams dropped by this host: its receive queue was full"},
		{"shm://desk", "7 datagrams dropped by publishers, since their queue to this process was full (queue= in the URL)"},
		{"shm://desk shm://two?dir=/x", "7 datagrams dropped by publishers, since"},
		{"shm://desk udp://", "7 datagrams dropped, since the receive queue was full"},
	} {
		s := &sub{common: common{urls: strings.Fields(c.urls)}}
		if got := s.line(&subSummary{jsonReceived: jsonReceived{Overflow: 7}}); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.urls, got, c.want)
		}
	}
	p := new(pub)
	if got := p.line(&pubSummary{NoMemory: 1}); !strings.HasSuffix(got, "1 packet lost because shared memory was full (fanfare doctor looks at it)") {
		t.Errorf("%q", got)
	}
	if got := p.line(&pubSummary{}); strings.Contains(got, "memory") {
		t.Errorf("%q", got)
	}
}
