// Package lab runs the project's RDMA lab: small virtual machines with a real Linux kernel, Soft-RoCE (rdma_rxe) and
// rdma-core's programs, documented in test/lab/README.md. Common code of its tests:
//
//	lab_test.go      runs VMs and returns their output
//	build_test.go    builds programs for them
//	capture_test.go  parses captured packets
package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Group is the multicast group that tests use unless they need several.
const Group = "239.1.2.3"

// Addr returns the address of VM i, counted from 1, and HostAddr is that of the host in a run with a host command.
func Addr(vm int) string { return fmt.Sprintf("10.99.0.%d", vm) }

const HostAddr = "10.99.0.254"

// Need skips the test unless the lab is requested, with FANFARE_LAB=1. If it is, a lab that cannot run fails the test.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv("FANFARE_LAB") == "" {
		t.Skip("the RDMA lab was not requested: 'test/lab/run test' sets it up (qemu, 170 MB of Debian packages) and runs these tests")
	}
	if _, err := os.Stat(filepath.Join(root(t), "test/lab/cache/stamp")); err != nil {
		t.Fatal("the RDMA lab is not set up: run 'test/lab/run setup' first")
	}
}

// Run is one run of the lab. The zero value boots one VM, which ends at once.
type Run struct {
	VMs      int            // default 1
	Command  string         // shell command of every VM ...
	Commands map[int]string // ... except for these, with commands of their own
	// Host is a shell command on the host, in a network namespace on the VMs' segment. It needs root.
	Host string
	// Dir is the working directory of all commands, shared with the VMs over 9p; default: an empty one.
	Dir     string
	Options []string      // further options of "test/lab/run run"
	Timeout time.Duration // of the VMs; default 2 minutes
}

// Result is the result of a run.
type Result struct {
	Status int      // exit status: the first that is not 0, of VMs and host
	Out    []string // output of VM i at index i, and the host's at 0

	captures string
}

// busy counts the hosts of running runs, including VMs and a command on this host. Several publishers and
// subscribers under emulation on two processors are so slow that some are released, which tests would report
// as faults: a run with two or more hosts runs alone, and two runs with one VM run concurrently.
var busy = struct {
	cond  sync.Cond
	hosts int
}{cond: sync.Cond{L: new(sync.Mutex)}}

// begin waits until a run with that many hosts may start, and returns a function to be called at its end.
func begin(hosts int) (end func()) {
	busy.cond.L.Lock()
	defer busy.cond.L.Unlock()
	for busy.hosts > 0 && busy.hosts+hosts > 2 {
		busy.cond.Wait()
	}
	busy.hosts += hosts
	return func() {
		busy.cond.L.Lock()
		defer busy.cond.L.Unlock()
		busy.hosts -= hosts
		busy.cond.Broadcast()
	}
}

// Do executes the run and waits for its end, whatever its status. Every NIC of every VM is captured, see Packets.
func (r Run) Do(t testing.TB) *Result {
	t.Helper()
	keep := t.TempDir()
	vms := max(r.VMs, 1)
	if r.Dir == "" {
		r.Dir = t.TempDir()
	}
	if r.Timeout == 0 {
		r.Timeout = 2 * time.Minute
	}
	res := &Result{Out: make([]string, vms+1), captures: filepath.Join(keep, "wire")}
	args := []string{"run", "-q", "--vms", strconv.Itoa(vms), "--dir", r.Dir, "--keep", keep,
		"--pcap", res.captures, "--timeout", strconv.Itoa(int(r.Timeout.Seconds()))}
	for vm, cmd := range r.Commands {
		args = append(args, fmt.Sprintf("--cmd-%d", vm), cmd)
	}
	if r.Host != "" {
		args = append(args, "--host-cmd", r.Host)
	}
	args = append(args, r.Options...)
	if r.Command != "" {
		args = append(args, "--", r.Command)
	}
	hosts := vms
	if r.Host != "" {
		hosts++
	}
	defer begin(hosts)()
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root(t), "test/lab/run"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends its VMs, too
	cmd.WaitDelay = 10 * time.Second
	log, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	res.Status = cmd.ProcessState.ExitCode()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the lab's run (status %d):\n%s", res.Status, log)
		}
	})
	if res.Status == 2 && strings.Contains(string(log), "lab: ") {
		t.Fatalf("the lab cannot run: %s", log)
	}
	for i := range res.Out {
		name := "out." + strconv.Itoa(i)
		if i == 0 {
			name = "out.host"
		}
		text, err := os.ReadFile(filepath.Join(keep, name))
		if err != nil && (i > 0 || r.Host != "") {
			t.Fatalf("the run left no output: %v\n%s", err, log)
		}
		res.Out[i] = string(text)
	}
	return res
}

// OK fails the test unless the run's status is 0.
func (r *Result) OK(t testing.TB) *Result {
	t.Helper()
	if r.Status != 0 {
		t.Fatalf("the lab's run ended with status %d, want 0", r.Status)
	}
	return r
}

// root returns the top folder of the repository.
func root(t testing.TB) string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("no path of the sources in the binary")
	}
	return filepath.Join(filepath.Dir(file), "../..")
}
