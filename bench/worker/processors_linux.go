package worker

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Processors are the numbers of those that the program may run on (sched_getaffinity(2)), in order.
func Processors() (list []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list, nil
}

// startOn starts a command on these processors, or where the program itself runs if there are none. The command
// has those of the thread that starts it, which is one of its own: it ends with its goroutine, which stays locked to it.
func startOn(cmd *exec.Cmd, processors []int) error {
	if len(processors) == 0 {
		return cmd.Start()
	}
	var set unix.CPUSet
	for _, i := range processors {
		set.Set(i)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.SchedSetaffinity(0, &set)
		if err != nil {
			err = fmt.Errorf("sched_setaffinity: %w", err)
		} else {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}
