package wire

import (
	"strings"
	"testing"
)

// docs/protocol §13.4.
func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"md-gw-1/4711":         "md-gw-1/4711",
		"Zürich-Börse":         "Zürich-Börse",
		"two words":            `"two words"`,
		"\x1b[2J\x1b[1;1Hroot": `"\x1b[2J\x1b[1;1Hroot"`,
		"a\nlevel=ERROR":       `"a\nlevel=ERROR"`,
		"\xff\xfe":             `"\xff\xfe"`,
		"right\u202eleft":      `"right\u202eleft"`,
	} {
		if got := CleanName([]byte(in)); got != want {
			t.Errorf("CleanName(%q) = %q, want %q", in, got, want)
		}
	}
	if got := CleanName([]byte(strings.Repeat("n", MaxName))); len(got) != MaxName {
		t.Errorf("longest name has %d bytes, want %d", len(got), MaxName)
	}
}

// A name that is too long is truncated: the rest of the status keeps its offsets. docs/protocol §7.6.
func TestStatusName(t *testing.T) {
	st := Status{Receiver: 1, Next: 1, Limit: 2, Name: []byte(strings.Repeat("n", MaxName+1))}
	got, err := describeStatus(AppendStatus(nil, goldenHeader, &st, []uint64{7}))
	if err != nil || len(got.Name) != MaxName || len(got.Topics) != 1 || got.Topics[0] != 7 {
		t.Errorf("status %+v, error %v, want a name of %d bytes and topic 7", got, err, MaxName)
	}
}
