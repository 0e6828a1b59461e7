//go:build linux

package quickstart

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

var fresh = flag.Bool("quickstart.fresh", false, "follow README.md from a clone with an empty build cache: a minute or two of both processors")

// newUser are the lines of README.md that lead to two communicating terminals, in order.
var newUser = []string{
	"git clone https://github.com/fanfaremq/fanfare && cd fanfare", "go build -o hello ./examples/hello", "./hello", "./hello good morning",
}

// README.md contains these lines in this order, and no other commands before them.
func TestNewUserGetsErrors(t *testing.T) {
	var lines []string
	for _, b := range blocksOf(read(t, "README.md")) {
		if !b.output {
			lines = append(lines, b.lines...)
		}
	}
	if len(lines) < len(newUser) || !slices.Equal(lines[:len(newUser)], newUser) {
		t.Errorf("README.md begins with the commands %q, want %q", lines[:min(len(lines), len(newUser))], newUser)
	}
}

// With only this repository, Go and its modules, a new user gets two communicating terminals: the
// log shows how long it takes. With -quickstart.fresh.
func TestNewUser(t *testing.T) {
	if !*fresh {
		t.Skip("runs only with -quickstart.fresh")
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, ".git")); err != nil {
		testenv.Skip(t, "no clone: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	home := t.TempDir()
	t.Setenv("GOCACHE", t.TempDir()) // empty
	t.Setenv("FANFARE_INSPECT", "off")
	where := home
	shell := func(line string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Dir = where
		return cmd
	}
	began := time.Now()
	step := func(what string) { t.Logf("after %5.1f s: %s", time.Since(began).Seconds(), what) }
	run := func(line string) {
		t.Helper()
		if out, err := shell(line).CombinedOutput(); err != nil {
			t.Fatalf("running %s: %v: %s", line, err, out)
		}
		step(line)
	}
	run(strings.Replace(newUser[0], "https://github.com/fanfaremq/fanfare", "'"+top+"' fanfare", 1))
	where = filepath.Join(home, "fanfare")
	run(newUser[1])
	var out output
	first := shell("exec " + newUser[2])
	first.Stdout = &out
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	defer func() { first.Process.Kill(); <-ended }()
	run(newUser[3])
	for !strings.Contains(out.String(), "\ngood morning\n") {
		if ctx.Err() != nil {
			t.Fatalf("terminal 1 shows\n%s", out.String())
		}
		time.Sleep(time.Millisecond)
	}
	step("terminal 1 shows: good morning")
}
