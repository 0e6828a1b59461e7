package inspect

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

const nobody = 65534

// Another user cannot use a socket: the modes of its directory and itself prevent it, and with open modes the process
// checks the user with the kernel.
func TestOtherUser(t *testing.T) {
	if path := os.Getenv("FANFARE_TEST_CONNECT"); path != "" { // the part below, as nobody
		_, err := Read(t.Context(), path)
		os.Stdout.WriteString("read: " + err.Error() + "\n")
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "it takes root to become another user")
	}
	dir := inDir(t)
	for x := filepath.Dir(dir); len(x) > len(os.TempDir()); x = filepath.Dir(x) { // testing creates directories of mode 0700
		if err := os.Chmod(x, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The user nobody cannot read the directory of the test binary.
	exe := filepath.Join(filepath.Dir(dir), "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, self, 0o755); err != nil {
		t.Fatal(err)
	}
	var r registry
	defer r.add(&source{name: "secret"}, slog.New(slog.DiscardHandler))()
	sockets, err := List(dir)
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %q, error %v, want one socket", sockets, err)
	}
	asNobody := func() string {
		cmd := exec.Command(exe, "-test.run=^TestOtherUser$")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "FANFARE_TEST_CONNECT="+sockets[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("running as another user: %v: %s", err, out)
		}
		return string(out)
	}
	if out := asNobody(); !strings.Contains(out, "permission denied") {
		t.Errorf("reading in a directory of mode 0700 printed %s, want permission denied", out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out := asNobody(); !strings.Contains(out, "permission denied") {
		t.Errorf("reading a socket of mode 0600 printed %s, want permission denied", out)
	}
	if err := os.Chmod(sockets[0], 0o666); err != nil {
		t.Fatal(err)
	}
	if out := asNobody(); !strings.Contains(out, "user 65534 may not inspect a process of user 0") {
		t.Errorf("reading a socket open to all printed %s, want that user 65534 may not inspect user 0", out)
	}
	if s, err := Read(t.Context(), sockets[0]); err != nil || s.Buses[0].Name != "secret" {
		t.Errorf("snapshot as the same user: %+v, error %v, want the bus secret", s, err)
	}
}
