package shellword

import "testing"

// Words with special characters are quoted.
func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"/dev/shm": "/dev/shm", "/run/desk-1_a.b": "/run/desk-1_a.b", "": "''", "/x y": "'/x y'", "/x;reboot": "'/x;reboot'", "/x'$(reboot)": `'/x'\''$(reboot)'`, "~": "'~'", "/ü": "'/ü'",
	} {
		if got := Of(text); got != want {
			t.Errorf("Of(%q) is %s, want %s", text, got, want)
		}
	}
}
