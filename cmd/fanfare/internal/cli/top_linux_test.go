package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/top"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// terminalPair is a pseudoterminal: pty(7).
func terminalPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func resize(t *testing.T, f *os.File, columns, lines int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(lines)}); err != nil {
		t.Fatal(err)
	}
}

var (
	forward  = regexp.MustCompile(`\x1b\[(\d*)C`)
	moves    = regexp.MustCompile(`\x1b\[[\d;]*[HdABEFG]`)
	sequence = regexp.MustCompile(`\x1b(\[[?>=]?[\d;]*[ -/]*[@-~]|\][^\a\x1b]*(\a|\x1b\\)|[()][A-Z0-9]|[=>78M])`)
	colours  = regexp.MustCompile(`\x1b\[(\d+;)*(3[0-7]|4[0-7]|38;[\d;]*|48;[\d;]*|9[0-7])m`)
)

// drawn is the screen after an output that redraws all of it, as lines.
func drawn(out string) string {
	out = forward.ReplaceAllStringFunc(out, func(s string) string {
		n, _ := strconv.Atoi(forward.FindStringSubmatch(s)[1])
		return strings.Repeat(" ", max(1, n))
	})
	return strings.ReplaceAll(sequence.ReplaceAllString(moves.ReplaceAllString(out, "\n"), ""), "\r", "")
}

// In a terminal the rates of a real publisher and subscriber change, and q ends top.
func TestTopLive(t *testing.T) {
	testenv.Slow(t)
	programOnly(t)
	dir := filepath.Join(t.TempDir(), "fanfare")
	t.Setenv(inspect.Variable, dir)
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "xterm-256color")
	url := loopbackURL(t)
	sub := spawn(t, "sub", "-t", url, "-q", "md.live")
	pub := spawn(t, "pub", "-t", url, "-q", "-wait", "1", "-name", "prices", "md.live")
	go func() {
		for n := 1; ; n++ { // faster and faster
			if _, err := fmt.Fprint(pub.stdin, strings.Repeat("message\n", n)); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	master, slave := terminalPair(t)
	resize(t, master, 120, 20)
	cmd := exec.CommandContext(testContext(t), path, "top", "-interval", "200ms")
	var errs syncBuffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := master.Read(buf)
			out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	published := regexp.MustCompile(`(?m)pub  md\.live +([\d.]+[kMG]?) .*prices`)
	subscribed := regexp.MustCompile(`(?m)sub  md\.live +([\d.]+[kMG]?) `)
	rates := make(map[string]bool)
	for columns := 121; len(rates) < 3; columns++ { // a resize redraws everything
		if columns > 121+500 {
			t.Fatalf("the rates do not change: %v; standard error %s; screen\n%s", rates, errs.String(), drawn(out.String()))
		}
		from := len(out.String())
		resize(t, master, 110+columns%20, 20)
		cmd.Process.Signal(unix.SIGWINCH)
		time.Sleep(200 * time.Millisecond)
		screen := drawn(out.String()[from:])
		p, s := published.FindStringSubmatch(screen), subscribed.FindStringSubmatch(screen)
		if p != nil && s != nil && s[1] != "0" {
			rates[p[1]] = true
		}
	}
	if s := colours.FindString(out.String()); s != "" {
		t.Errorf("NO_COLOR is set, but the output has %q", s)
	}
	// On a busy host a process may not answer in time: try again.
	ctx := testContext(t)
	for {
		var f top.Figures
		once := spawn(t, "top", "-once", "-json", dir)
		<-once.waited
		if err := json.Unmarshal([]byte(once.stdout.String()), &f); err != nil {
			t.Fatalf("top -once -json writes no JSON object: %v: %s", err, once.stdout.String())
		}
		if once.cmd.ProcessState.ExitCode() == exitOK && len(f.Buses) == 2 && len(f.Topics) == 1 && f.Topics[0].Rate > 0 && f.Topics[0].Subscribers == 1 && len(f.Subscribers) == 1 && f.Total.DeliveredRate > 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("top -once -json lacks the wanted objects: %s", once.stdout.String())
		}
	}
	for {
		text := spawn(t, "top", "-once", "-view", "streams")
		<-text.waited
		s := text.stdout.String()
		if strings.Contains(s, "TOPICS") || strings.Contains(s, "\x1b") {
			t.Errorf("top -once -view streams writes topics or escape sequences: %s", s)
		}
		if text.cmd.ProcessState.ExitCode() == exitOK && strings.Contains(s, "STREAMS") && strings.Contains(s, "prices") {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("top -once lacks the stream of prices: %s", s)
		}
	}
	if _, err := master.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("top ended with %v after the key q, want no error: %s", err, errs.String())
	}
	pub.stdin.Close()
	sub.kill()
}

// A killed process leaves its socket, which the next command removes; if there is no process to
// read, the command reports that with advice.
func TestTopWithoutProcess(t *testing.T) {
	programOnly(t)
	dir := filepath.Join(t.TempDir(), "fanfare")
	t.Setenv(inspect.Variable, dir)
	sub := spawn(t, "sub", "-t", loopbackURL(t), "-q", "md.live")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if files, _ := os.ReadDir(dir); len(files) == 1 {
			break
		}
	}
	sub.kill()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("files of the killed process: %v, error %v, want 1", files, err)
	}
	path := filepath.Join(dir, files[0].Name())
	if err := os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "top", "-once")
	p.end(t, exitIncomplete)
	if s := p.stderr.String(); !strings.Contains(s, "No process of this user has a bus") || !strings.Contains(s, dir) || strings.Count(s, "\n") != 1 {
		t.Errorf("standard error %s, want one line that no process has a bus in %s", s, dir)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket of the killed process is still there")
	}
	for _, args := range [][]string{{"top"}, {"top", "-interval", "1ms"}, {"top", "-view", "x"}} {
		p := spawn(t, args...)
		p.end(t, exitUsage)
		if s := p.stderr.String(); strings.Count(s, "\n") != 1 {
			t.Errorf("%q: standard error %s, want 1 line", args, s)
		}
	}
	// Without sockets all commands that read processes print the same error.
	for _, args := range [][]string{{"top", "-once"}, {"loss"}, {"web", "-listen", "localhost:0"}, {"ls", "-socket"}} {
		p := spawn(t, append(args, "/missing")...)
		p.end(t, exitUsage)
		if s := p.stderr.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "no socket found: stat /missing: no such file") {
			t.Errorf("%q: standard error %s, want one line that no socket was found", args, s)
		}
	}
	for _, args := range [][]string{{"loss"}, {"ls", "-here"}} {
		p := spawn(t, args...)
		p.end(t, exitIncomplete)
		if s := p.stderr.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "No process of this user has a bus") {
			t.Errorf("%q: standard error %s, want one line that no process has a bus", args, s)
		}
	}
}
