package rocenet

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// An interface that does not support multicast is refused, and the error names one that does. It is never the default.
func TestNoMulticast(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	for i, name := range []string{"mute", "good"} {
		testenv.AddVeth(t, name, name+"-end", 0)
		testenv.AddAddr(t, name, "10.79."+string(rune('0'+i))+".1/24")
		testenv.LinkUp(t, name)
		testenv.LinkUp(t, name+"-end")
	}
	testenv.LinkMulticast(t, "mute", false)
	for _, name := range []string{"mute", "10.79.0.1"} {
		_, _, err := find(name, false)
		if err == nil || !strings.Contains(err.Error(), "roce: interface mute does not support multicast") || !strings.Contains(err.Error(), "use good") {
			t.Errorf("%s: error %v, want that interface mute lacks multicast, and good as an alternative", name, err)
		}
	}
	if name, _, err := find("", false); err != nil || name != "good" {
		t.Errorf("the default interface is %s, error %v, want good", name, err)
	}
}
