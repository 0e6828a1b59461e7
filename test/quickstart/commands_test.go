//go:build linux

// Package quickstart runs the commands and programs of README.md and of all pages of docs, like a reader.
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

// The lines in the table documents exist.
func TestCommandsExist(t *testing.T) {
	for file, lines := range documents {
		there := make(map[string]bool)
		for _, b := range blocksOf(read(t, file)) {
			for _, line := range b.lines {
				there[bare(line)] = !b.output && b.notRun == ""
			}
		}
		for line := range lines {
			if !there[line] {
				t.Errorf("%s does not contain this command: %s", file, line)
			}
		}
	}
}

// bare returns a line without its comment after #.
func bare(line string) string {
	line, _, _ = strings.Cut(line, " #")
	return strings.TrimSpace(line)
}

// output is the output of a command, of both streams.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
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

// pageTimeout is the time limit of a page.
const pageTimeout = 15 * time.Minute

// installed is the environment variable with the directory of the command, in processes that run a page.
const installed = "FANFARE_QUICKSTART_BIN"

// The commands work as documented: each succeeds, and prints the documented output. Each page has a network of its own.
func TestNamespaceCommands(t *testing.T) {
	testenv.Slow(t)
	if os.Getenv(installed) == "" {
		os.Setenv(installed, t.TempDir())
		t.Cleanup(func() { os.Unsetenv(installed) })
		install := goCommand(t, "install", "./cmd/fanfare")
		install.Env = append(os.Environ(), "GOBIN="+os.Getenv(installed))
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("go install: %v: %s", err, out)
		}
	}
	for _, file := range pages(t) {
		if !slices.ContainsFunc(blocksOf(read(t, file)), runs) {
			continue
		}
		t.Run(strings.ReplaceAll(filepath.Base(file), ".", "_"), func(t *testing.T) {
			t.Parallel() // the test mostly waits
			if !testenv.Namespace(t) {
				return
			}
			testenv.AddVeth(t, "eth0", "eth1", 0)
			testenv.AddAddr(t, "eth0", "10.0.0.2/24")
			testenv.LinkUp(t, "eth0")
			testenv.LinkUp(t, "eth1")
			// Ignore other processes of this host, and of other tests.
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

// runs reports whether the block contains commands to run.
func runs(b block) bool {
	return !b.output && b.notRun == "" && slices.ContainsFunc(b.lines, func(line string) bool { return bare(line) != "" })
}

// runPage runs the commands of a page in order, in a directory of its own.
func runPage(t *testing.T, file string) {
	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
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
			if h.requires != "" { // until the required command has started
				r.run(how{as: h.requires, background: true})
				h.as = "until " + h.as + " | tee output && grep -q '" + h.wantText + "' output; do sleep 0.1; done"
			}
			// A subscriber ends together with its publisher: the next publisher that waits for a subscriber
			// must not find an earlier one.
			if r.run(h); !h.background {
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
	ends      []func() // end commands in the background
}

func (r *runner) end() {
	for _, f := range r.ends {
		f()
	}
	r.ends = nil
}

// run runs a command to its end. A background command is only started: end waits for its expected
// output, and ends it. Commands of the repository run in its top folder.
func (r *runner) run(h how) {
	t, line := r.t, h.as
	var out output
	cmd := exec.CommandContext(r.ctx, "bash", "-c", "set -eo pipefail; "+line)
	if cmd.Dir = r.dir; strings.HasPrefix(line, "go ") && !strings.HasPrefix(line, "go tool ") || strings.HasPrefix(line, "bash ") {
		cmd.Dir = root
	}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Processes started by the shell end with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Errorf("%s: starting %s: %v", r.file, line, err)
		return
	}
	if h.background {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		r.ends = append(r.ends, func() {
			for r.ctx.Err() == nil && len(ended) == 0 && !strings.Contains(out.String(), h.wantText) {
				time.Sleep(5 * time.Millisecond)
			}
			if text := out.String(); !strings.Contains(text, h.wantText) {
				t.Errorf("%s: %s: no %q in\n%s", r.file, line, h.wantText, text)
			}
			_ = cmd.Cancel() // unless it has ended
			<-ended
		})
		return
	}
	began := time.Now()
	err := cmd.Wait()
	t.Logf("%s: %s took %v", r.file, line, time.Since(began).Round(time.Millisecond))
	var exit *exec.ExitError
	if text := out.String(); err != nil && !(errors.As(err, &exit) && slices.Contains(h.codes, exit.ExitCode())) || !strings.Contains(text, h.wantText) {
		t.Errorf("%s: %s: %v, want %q in\n%s", r.file, line, err, h.wantText, text)
	}
}
