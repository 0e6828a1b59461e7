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

// inNamespace is the environment variable that has the name of the test in a test binary that was started again in a
// network namespace.
const inNamespace = "FANFARE_TEST_NAMESPACE"

// Namespace runs the calling test again, in a process with a new network namespace. It returns true in that process,
// which then runs the body of the test. It returns false in the first process, when the other one has ended: the test
// is done, has failed, or is skipped because the user may not create namespaces.
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
		Skip(t, "user %d may not create a network namespace on this system: %v", os.Getuid(), err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || strings.Contains(out.String(), "--- SKIP") {
		// A cached skip must not count when MustRun is set: go test records only the variables that this process reads.
		os.Getenv(MustRun)
		for line := range strings.Lines(out.String()) {
			if s := strings.TrimSpace(line); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- PASS") {
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
	}
	if err != nil {
		t.Fatalf("in a new network namespace: %v", err)
	}
	return false
}

// NamespaceCommand returns the command that runs this test binary in a new network namespace, and, unless the user is
// root, in a new user namespace in which the user is root.
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

// Sysctl sets a kernel parameter of the namespace; name has the form "net/ipv4/…".
func Sysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		Skip(t, "%v", err)
	}
}
