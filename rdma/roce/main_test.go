//go:build linux

package roce

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// isolated is the environment variable that is set when this test binary runs itself in a network namespace.
const isolated = "FANFARE_TEST_ROCE_ISOLATED"

// rawAllowed reports whether this process has CAP_NET_RAW.
func rawAllowed() bool {
	allowed, err := canOpenRaw()
	return allowed && err == nil
}

// TestMain runs all tests in a separate network namespace, if the system permits it: a host has only one UDP port 4791
// and one set of the suite's groups, which other tests may use at the same time.
func TestMain(m *testing.M) {
	if os.Getenv(isolated) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	exe, err := os.Executable()
	if err != nil {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // Pdeathsig refers to the end of this thread
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if cmd.Start() != nil {
		os.Exit(m.Run()) // namespaces are not permitted
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &ended) {
		os.Exit(max(ended.ExitCode(), 1))
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r) == nil && r.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}
