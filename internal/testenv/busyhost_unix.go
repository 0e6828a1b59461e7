//go:build unix

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BusyHost starts programs that publish and subscribe on loopback until the test ends, built from the source below
// root: three feeds, subscribers with loss, and one that is too slow. It returns the directory with their inspection
// sockets, and passes its path to them in the environment variable.
func BusyHost(t *testing.T, root, variable string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fanfare-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, lines := filepath.Join(dir, "fanfare"), filepath.Join(dir, "lines")
	build := exec.Command("go", "build", "-o", program, "./cmd/fanfare")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(lines, []byte(strings.Repeat(strings.Repeat("x", 79)+"\n", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("udp://?iface=lo&port=%d&groups=8", Port(t))
	sockets := filepath.Join(dir, "s")
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{args[0], "-t", url}, args[1:]...)...)
		cmd.Env = append(os.Environ(), variable+"="+sockets)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	for i, name := range []string{"prices", "orders", "trades"} {
		run("pub", "-name", name, "-rate", fmt.Sprint(2000*(i+1)), "-repeat", "100000", "-flow", "none", "-file", lines, []string{"md.x1.trades", "md.x2.trades", "md.x3.trades"}[i]) // in three groups
	}
	run("sub", "md.>")
	run("sub", "-faults", "loss=0.01,burst=3", "md.x1.>", "md.x3.*")
	run("sub", "-faults", "loss=0.002", "md.x2.>")
	slow := run("sub", "-slow", "latest", "-behind", "64", "md.x3.*")
	go func() { // it runs only for short moments
		for range 200 {
			slow.Process.Signal(syscall.SIGSTOP)
			time.Sleep(300 * time.Millisecond)
			if slow.Process.Signal(syscall.SIGCONT) != nil {
				return
			}
			time.Sleep(4 * time.Second)
		}
	}()
	return sockets
}
