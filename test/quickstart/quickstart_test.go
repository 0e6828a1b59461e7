//go:build linux

// Package quickstart runs the commands and programs of README.md, docs/quickstart.md and the
// guides, as somebody does who reads them.
package quickstart

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

const root = "../.."

// command is one line of a document, in its order.
type command struct {
	line string
	// leftOut says why it is not run here.
	leftOut string
	// beside says that it runs in a terminal of its own, until the next command that does not
	// has ended.
	beside bool
	// says is in its output.
	says string
	// codes are the exit codes beside 0 that are fine.
	codes []int
}

// tooLong is the reason for what would take most of the test's time.
const tooLong = "it takes up to a minute where other tests run beside it; .ci/run runs the example without this flag"

// secondHost is the reason for what needs one.
const secondHost = "it takes a second host; internal/cli runs it between two network namespaces"

var documents = map[string][]command{
	"README.md": {
		{line: "git clone https://github.com/fanfaremq/fanfare && cd fanfare", leftOut: "tests use no network, and this is a clone"},
		{line: "go run ./examples/hello", beside: true, says: "good morning"},
		{line: "go run ./examples/hello good morning", says: "Publishing"},
		{line: "go run ./examples/marketdata", leftOut: ".ci/run does"},
		{line: "go run ./examples/marketdata -rate 0", leftOut: tooLong},
		{line: "go run ./examples/marketdata -faults loss=0.05,dup=0.02,reorder=0.05", leftOut: tooLong},
		{line: "go run ./examples/marketdata -join", leftOut: tooLong},
		{line: "go run ./examples/marketdata -file 12302019.NASDAQ_ITCH50.gz", leftOut: "the file is the exchange's"},
		{line: "go install ./cmd/fanfare"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' greetings", beside: true, says: "hello"},
		{line: "echo hello | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -wait 1 greetings"},
		{line: "fanfare demo", says: "exactly once"},
		{line: "fanfare doctor", says: "This host is", codes: []int{1, 3}},
		{line: "fanfare tap -t 'udp://239.20.0.0/16?iface=lo'", beside: true},
		{line: "fanfare top", leftOut: "it takes a terminal; internal/cli runs it in one"},
		{line: "go test ./...", leftOut: "this is a part of it"},
		{line: "go get github.com/fanfaremq/fanfare", leftOut: "there is no release yet"},
	},
	"docs/quickstart.md": {
		{line: "go install ./cmd/fanfare"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' 'md.>'", beside: true, says: "5"},
		{line: "seq 5 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -wait 1 md.xnas.AAPL"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -faults loss=0.2,seed=7 -n 1000 md.lossy", beside: true, says: "1000"},
		{line: "seq 1000 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -wait 1 md.lossy"},
		{line: "fanfare sub -t roce://lo -n 5 greetings", beside: true, says: "5"},
		{line: "seq 5 | fanfare pub -t roce://lo -wait 1 greetings"},
		{line: "fanfare demo", says: "exactly once"},
		{line: "fanfare doctor", says: "This host is", codes: []int{1, 3}},
	},
	"docs/guides/market-data.md": {
		{line: "go install ./cmd/fanfare"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo&groups=64&map=prefix:2' -n 6 'md.xnas.>'", beside: true, says: "6"},
		{line: "seq 6 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo&groups=64&map=prefix:2' -wait 1 md.xnas.AAPL"},
		{line: "go run ./examples/marketdata", leftOut: ".ci/run does"},
		{line: "yes quote | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -retain -rate 20 md.late", beside: true},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -from state -n 3 md.late", says: "quote"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -tag record -n 1000 md.tagged", beside: true, says: "1000"},
		{line: "seq 1000 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -flow tag:record -wait 1 md.tagged"},
		{line: "fanfare sub -t 'udp://239.20.0.0/24?iface=lo' -t 'udp://239.21.0.0/24?iface=lo&port=7500' -faults loss=0.3,seed=1 -n 2000 md.legs", beside: true, says: "2000"},
		{line: "seq 2000 | fanfare pub -t 'udp://239.20.0.0/24?iface=lo' -t 'udp://239.21.0.0/24?iface=lo&port=7500' -wait 1 md.legs"},
	},
	"docs/guides/cluster.md": {
		{line: "go install ./cmd/fanfare"},
		{line: "fanfare doctor", says: "This host is", codes: []int{1, 3}},
		{line: "fanfare doctor -listen -iface eth0", leftOut: secondHost},
		{line: "fanfare doctor -peer 10.0.0.2", leftOut: secondHost},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -n 3 cluster.cache", beside: true, says: "drop user/3"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -n 3 'cluster.>'", beside: true, says: "drop user/3"},
		{line: `printf 'drop user/1\ndrop user/2\ndrop user/3\n' | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -name cache-1 -wait 2 cluster.cache`},
		{line: "yes v7 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -retain -rate 20 cluster.config", beside: true},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -from state -n 1 cluster.config", says: "v7"},
		{line: "fanfare reply -t 'udp://239.20.0.0/16?iface=lo' -exec hostname cluster.who", beside: true},
		{line: "fanfare request -t 'udp://239.20.0.0/16?iface=lo' -wait 1 cluster.who hello"},
		{line: "fanfare key new cluster.keys"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo&keys=cluster.keys' -n 2 cluster.sealed", beside: true, says: "2"},
		{line: "seq 2 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo&keys=cluster.keys' -wait 1 cluster.sealed"},
		{line: "rm cluster.keys"},
	},
	"docs/guides/testing.md": {
		{line: "go install ./cmd/fanfare"},
		{line: "fanfare sub -t 'udp://239.20.0.0/16?iface=lo' -faults loss=0.1,dup=0.05,reorder=0.1,seed=3 -n 500 test.lossy", beside: true, says: "500"},
		{line: "seq 500 | fanfare pub -t 'udp://239.20.0.0/16?iface=lo' -wait 1 test.lossy"},
	},
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The commands of the documents are those of the table, so that no line is left untried
// unless the table says why.
func TestCommandsAreKnown(t *testing.T) {
	for file, commands := range documents {
		var want, got []string
		for _, c := range commands {
			want = append(want, c.line)
		}
		for line := range strings.Lines(fenced.ReplaceAllString(read(t, file), "")) {
			if text, ok := strings.CutPrefix(line, "    "); ok && strings.TrimSpace(text) != "" {
				got = append(got, strings.TrimSpace(text))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the commands\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
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

// patience bounds all waiting of one document.
const patience = 10 * time.Minute

// The commands do what the documents say: each ends well, and says what it should.
func TestNamespaceCommands(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	bin, dir := t.TempDir(), t.TempDir()
	for file, commands := range documents {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var ends []func()
		end := func() {
			for _, f := range ends {
				f()
			}
			ends = nil
		}
		for _, c := range commands {
			if c.leftOut != "" {
				continue
			}
			// Who listens goes with who spoke to it: the next one to wait for a subscriber is
			// not to find an earlier one.
			if ends = append(ends, c.run(ctx, t, file, bin, dir)); !c.beside {
				end()
			}
		}
		end()
		cancel()
	}
}

// run runs a command in dir, or the top of the tree if it is one of Go, to its end, or begins it if it is one beside others. The function
// that it returns waits for what it should say, and ends it.
func (c *command) run(ctx context.Context, t *testing.T, file, bin, dir string) (end func()) {
	var out output
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -eo pipefail; "+c.line)
	if cmd.Dir = dir; strings.HasPrefix(c.line, "go ") {
		cmd.Dir = root
	}
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What the shell has begun ends with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Errorf("%s: %s: %v", file, c.line, err)
		return func() {}
	}
	if c.beside {
		return func() {
			for ctx.Err() == nil && !strings.Contains(out.String(), c.says) {
				time.Sleep(5 * time.Millisecond)
			}
			if text := out.String(); !strings.Contains(text, c.says) {
				t.Errorf("%s: %s: no %q in\n%s", file, c.line, c.says, text)
			}
			_ = cmd.Cancel() // unless it has ended
			_ = cmd.Wait()
		}
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if text := out.String(); err != nil && !(errors.As(err, &exit) && slices.Contains(c.codes, exit.ExitCode())) || !strings.Contains(text, c.says) {
		t.Errorf("%s: %s: %v, want %q in\n%s", file, c.line, err, c.says, text)
	}
	return func() {}
}

// fenced matches a block of Go.
var fenced = regexp.MustCompile("(?s)```go\n(.*?)```\n")

// The Go of the documents compiles, as a program or as the inside of a function; programs
// say what their last comment says.
func TestNamespaceSnippets(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	for file := range documents {
		snippets := fenced.FindAllStringSubmatch(read(t, file), -1)
		if len(snippets) == 0 {
			t.Errorf("%s has no Go", file)
		}
		for _, m := range snippets {
			source, verb := m[1], "run"
			if !strings.HasPrefix(source, "package main") {
				verb = "build"
				source = "package main\n\nimport (\n\t\"context\"\n\t\"errors\"\n\t\"log\"\n\n\t\"github.com/fanfaremq/fanfare/pubsub\"\n)\n\n" +
					"var _, _ = errors.As, log.Printf\n\nfunc snippet(ctx context.Context, bus *pubsub.Bus, payload []byte) error {\n" +
					strings.ReplaceAll(source, "for msg, err := range sub.Messages(ctx) {", "for msg, err := range sub.Messages(ctx) {\n_, _ = msg, err") + "return err\n}\n\nfunc main() { _ = snippet }\n"
			}
			path := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{verb, path}
			if verb == "build" {
				args = []string{verb, "-o", os.DevNull, path}
			}
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			comments := strings.Split(source, "// ")
			want := strings.TrimSpace(strings.TrimRight(comments[len(comments)-1], "}\n"))
			if err != nil || verb == "run" && !strings.Contains(string(out), want) {
				t.Errorf("%s: %v, want %q:\n%s\n%s", file, err, want, out, source)
			}
		}
	}
}
