package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace is set in the environment of a test binary that runs itself again
// in a network namespace, to the name of the test.
const inNamespace = "FANFARE_TEST_NAMESPACE"

// Namespace runs the calling test again, in a process with a network namespace of its own, which ends with it.
// It returns true there: then the test does its work. Where it returns false the work is done, or t has failed
// or is skipped because the user may not create namespaces.
func Namespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) == t.Name() {
		LinkUp(t, "lo")
		return true
	}
	cmd := NamespaceCommand(t, "-test.run=^"+t.Name()+"$", "-test.v", TimeLimit(t), fmt.Sprint("-test.short=", testing.Short()))
	cmd.Env = append(cmd.Env, inNamespace+"="+t.Name())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) ||
		errors.Is(err, unix.EINVAL) {
		Skip(t, "this system lets user %d make no network namespace: %v", os.Getuid(), err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || strings.Contains(out.String(), "--- SKIP") {
		// A cached result of this run must not count when MustRun is set: go test only records which variables
		// this process reads.
		os.Getenv(MustRun)
		for line := range strings.Lines(out.String()) {
			if s := strings.TrimSpace(line); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- PASS") {
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
	}
	if err != nil {
		t.Fatalf("in a namespace of its own: %v", err)
	}
	return false
}

// NamespaceCommand is this test binary as a command with a network namespace of
// its own, and, unless the user is root, a user namespace in which it is.
func NamespaceCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// Sysctl sets a kernel parameter of the namespace, "net/ipv4/…".
func Sysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		Skip(t, "%v", err)
	}
}
