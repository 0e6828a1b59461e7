//go:build linux

// Package quickstart runs the commands and programs of README.md and of all pages of docs, as
// somebody does who reads them.
package quickstart

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// The table speaks of lines that are there.
func TestCommandsAreKnown(t *testing.T) {
	for file, lines := range documents {
		there := make(map[string]bool)
		for _, b := range blocksOf(read(t, file)) {
			for _, line := range b.lines {
				there[bare(line)] = !b.output && b.unrun == ""
			}
		}
		for line := range lines {
			if !there[line] {
				t.Errorf("%s has no command that is run: %s", file, line)
			}
		}
	}
}

// bare is a line without what it says behind #.
func bare(line string) string {
	line, _, _ = strings.Cut(line, " #")
	return strings.TrimSpace(line)
}

// output is what a command has written, in both streams.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// patience bounds all waiting of one page.
const patience = 15 * time.Minute

// installed is set to the directory that the command is in, in processes that run a page.
const installed = "FANFARE_QUICKSTART_BIN"

// The commands do what the pages say: each ends well, and says what it should. Each page has a network of its own.
func TestNamespaceCommands(t *testing.T) {
	testenv.Slow(t)
	if os.Getenv(installed) == "" {
		os.Setenv(installed, t.TempDir())
		t.Cleanup(func() { os.Unsetenv(installed) })
		install := goCommand(t, "install", "./cmd/fanfare")
		install.Env = append(os.Environ(), "GOBIN="+os.Getenv(installed))
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, file := range pages(t) {
		if !slices.ContainsFunc(blocksOf(read(t, file)), runs) {
			continue
		}
		t.Run(strings.ReplaceAll(filepath.Base(file), ".", "_"), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			if !testenv.Namespace(t) {
				return
			}
			testenv.AddVeth(t, "eth0", "eth1", 0)
			testenv.AddAddr(t, "eth0", "10.0.0.2/24")
			testenv.LinkUp(t, "eth0")
			testenv.LinkUp(t, "eth1")
			// Other processes of this host, and of other tests, are not looked at.
			os.Setenv("FANFARE_INSPECT", filepath.Join(t.TempDir(), "inspect"))
			os.Setenv("GOBIN", os.Getenv(installed))
			os.Setenv("PATH", os.Getenv(installed)+":"+os.Getenv("PATH"))
			runPage(t, file)
		})
	}
}

func goCommand(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	return cmd
}

// runs reports whether the block is of commands that are run.
func runs(b block) bool {
	return !b.output && b.unrun == "" && slices.ContainsFunc(b.lines, func(line string) bool { return bare(line) != "" })
}

// runPage runs the commands of a page in their order, in a directory of its own.
func runPage(t *testing.T, file string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := &runner{t: t, ctx: ctx, file: file, dir: t.TempDir()}
	defer r.end()
	for _, b := range blocksOf(read(t, file)) {
		if !runs(b) {
			continue
		}
		for _, line := range b.lines {
			if line = bare(line); line == "" {
				continue
			}
			h := documents[file][line]
			if h.as == "" {
				h.as = line
			}
			if h.given != "" { // until what is given has begun
				r.run(how{as: h.given, beside: true})
				h.as = "until " + h.as + " | tee said && grep -q '" + h.says + "' said; do sleep 0.1; done"
			}
			// Who listens goes with who spoke to it: the next one to wait for a subscriber is
			// not to find an earlier one.
			if r.run(h); !h.beside {
				r.end()
			}
		}
	}
}

// runner runs the commands of a page.
type runner struct {
	t         *testing.T
	ctx       context.Context
	file, dir string
	ends      []func() // of commands beside
}

func (r *runner) end() {
	for _, f := range r.ends {
		f()
	}
	r.ends = nil
}

// run runs a command to its end, or begins it if it is one beside others: then end waits for
// what it should say, and ends it. Commands of the tree run in its top.
func (r *runner) run(h how) {
	t, line := r.t, h.as
	var out output
	cmd := exec.CommandContext(r.ctx, "bash", "-c", "set -eo pipefail; "+line)
	if cmd.Dir = r.dir; strings.HasPrefix(line, "go ") && !strings.HasPrefix(line, "go tool ") || strings.HasPrefix(line, "bash ") {
		cmd.Dir = root
	}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What the shell has begun ends with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Errorf("%s: %s: %v", r.file, line, err)
		return
	}
	if h.beside {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		r.ends = append(r.ends, func() {
			for r.ctx.Err() == nil && len(ended) == 0 && !strings.Contains(out.String(), h.says) {
				time.Sleep(5 * time.Millisecond)
			}
			if text := out.String(); !strings.Contains(text, h.says) {
				t.Errorf("%s: %s: no %q in\n%s", r.file, line, h.says, text)
			}
			_ = cmd.Cancel() // unless it has ended
			<-ended
		})
		return
	}
	began := time.Now()
	err := cmd.Wait()
	t.Logf("%s: %s: %v", r.file, line, time.Since(began).Round(time.Millisecond))
	var exit *exec.ExitError
	if text := out.String(); err != nil && !(errors.As(err, &exit) && slices.Contains(h.codes, exit.ExitCode())) || !strings.Contains(text, h.says) {
		t.Errorf("%s: %s: %v, want %q in\n%s", r.file, line, err, h.says, text)
	}
}
