package testenv

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// Browser returns the command of a headless Chromium, from FANFARE_BROWSER or PATH, with a new profile. It skips the
// test if there is none.
func Browser(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	for _, name := range []string{os.Getenv("FANFARE_BROWSER"), "chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, append([]string{
				"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + profile(t),
			}, args...)...)
		}
	}
	Skip(t, "there is no Chromium: install one (on Debian, apt install chromium-headless-shell), or set FANFARE_BROWSER to its path")
	return nil
}

// profile returns a directory that is removed at the end of the test. Child processes of the browser may still write
// there when the main one has ended: t.TempDir would then fail the test.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fanfare-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); os.RemoveAll(dir) != nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	return dir
}
