//go:build rdma && linux && cgo

package verbs

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// unprivileged is the environment variable that is set when a test runs again without CAP_NET_RAW and CAP_IPC_LOCK.
const unprivileged = "FANFARE_VERBS_UNPRIVILEGED"

// TestUnprivileged runs S107, about Q_Keys with bit 31, and the test of memory limits in a process without the
// capabilities of root.
func TestUnprivileged(t *testing.T) {
	testHosts(t)
	if os.Getenv(unprivileged) != "" || unix.Geteuid() != 0 {
		t.Skip("it must start as root")
	}
	// A thread that has dropped capabilities permanently starts the process, and ends with the test.
	out := make(chan string)
	go func() {
		runtime.LockOSThread()
		for _, c := range []uintptr{unix.CAP_NET_RAW, unix.CAP_IPC_LOCK} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				out <- err.Error()
				return
			}
		}
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^(TestConformance|TestMemoryLimit)$/^S107")
		cmd.Env = append(os.Environ(), unprivileged+"=1")
		text, err := cmd.CombinedOutput()
		if err != nil {
			text = append(text, err.Error()...)
		}
		out <- string(text)
	}()
	text := <-out
	for _, want := range []string{"--- PASS: TestConformance/S107", "--- PASS: TestMemoryLimit"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Memory above RLIMIT_MEMLOCK cannot be registered, and the error has advice.
func TestMemoryLimit(t *testing.T) {
	if os.Getenv(unprivileged) == "" {
		t.Skip("TestUnprivileged runs it without CAP_IPC_LOCK")
	}
	r := newRig(t, testHosts(t)[0])
	limit := unix.Rlimit{Cur: 4 << 20, Max: 4 << 20}
	r.must(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit))
	mem, err := sys.Alloc(8 << 20)
	r.must(err)
	defer sys.Free(mem)
	_, err = r.pd.RegisterMemory(mem, rdma.AccessLocalWrite)
	wantErrno(t, "RegisterMemory", err, syscall.ENOMEM)
	if err == nil || !strings.Contains(err.Error(), "ulimit -l") || !strings.Contains(err.Error(), "4194304") {
		t.Errorf("the error does not help: %v", err)
	}
}
