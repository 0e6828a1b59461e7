package shm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// countVar names a file. If it is set, this test binary runs itself without the variable, counts
// the system calls of that process, and writes their number into the file.
const countVar = "FANFARE_TEST_COUNT"

// untraceable is the exit code if tracing is not permitted.
const untraceable = 4

// countCalls is the main function with countVar set. It returns the exit code, that of the other process on success.
func countCalls(file string) int {
	runtime.LockOSThread() // tracing is bound to a thread
	os.Unsetenv(countVar)
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return untraceable
	}
	calls, code, err := follow(cmd.Process.Pid)
	if err == nil {
		err = os.WriteFile(file, []byte(strconv.Itoa(calls)), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// follow counts the system calls of a new process, of all its threads, until it ends (ptrace(2)). A
// thread stops before and after each call, and for signals: one without calls runs at full speed.
func follow(pid int) (calls, code int, err error) {
	const atCall = unix.SIGTRAP | 0x80 // PTRACE_O_TRACESYSGOOD
	for stops, first := 0, true; ; {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return (stops + 1) / 2, code, nil
		case err != nil:
			return 0, 0, fmt.Errorf("wait4: %w", err)
		case !status.Stopped():
			if tid == pid {
				code = status.ExitStatus()
			}
			continue
		}
		if first { // it has started its program
			first = false
			if err := unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
				return 0, 0, fmt.Errorf("PTRACE_SETOPTIONS: %w", err)
			}
		}
		signal := status.StopSignal()
		if signal == atCall {
			stops++
		}
		if signal == atCall || signal == unix.SIGTRAP || signal == unix.SIGSTOP { // reported by ptrace, not a real signal
			signal = 0
		}
		if err := unix.PtraceSyscall(tid, int(signal)); err != nil && !errors.Is(err, unix.ESRCH) { // it may have just been killed
			return 0, 0, fmt.Errorf("PTRACE_SYSCALL: %w", err)
		}
	}
}
