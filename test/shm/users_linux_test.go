package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Users of the test, and a group with two of them as members.
const (
	alice, bob, mallory = 61001, 61002, 61003
	shared, alone       = 61100, 61101
)

// actVar is the environment variable for the action of another user.
const actVar = "FANFARE_TEST_ACT"

// asUser returns a command that runs this test binary as another user, with an action.
func asUser(t *testing.T, exe string, uid, gid uint32, act, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(exe, "-test.run=^TestOtherUser$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), actVar+"="+act, urlVar+"="+url, "FANFARE_INSPECT=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

// act performs an action in the process of another user. It prints the result.
func act(what, url string) {
	ctx := context.Background()
	switch what {
	case "publish", "subscribe":
		bus, err := pubsub.Open(ctx, url)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer bus.Close()
		if what == "subscribe" {
			sub, err := bus.Subscribe(topic)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("ready")
			m, err := sub.Next(ctx)
			fmt.Println(string(m.Data), err)
			return
		}
		pub, err := bus.Publisher(topic)
		if err == nil {
			err = pub.WaitSubscribers(ctx, 1)
		}
		if err == nil {
			err = pub.Publish(ctx, []byte("hello from another user"))
		}
		if err == nil {
			err = pub.Drain(ctx)
		}
		fmt.Println("published", err)
	case "move":
		fmt.Println(os.Rename(url, url+"-mine"))
	case "remove":
		for _, path := range files(url) {
			fmt.Println(filepath.Base(path), os.Remove(path))
		}
	case "write", "truncate", "read":
		for _, path := range files(url) {
			flag := os.O_RDWR
			if what == "read" {
				flag = os.O_RDONLY
			}
			var err error
			if what == "truncate" {
				err = os.Truncate(path, 0)
			} else if strings.HasSuffix(path, ".bell") {
				continue // opening it would block
			} else {
				var f *os.File
				if f, err = os.OpenFile(path, flag, 0); err == nil {
					f.Close()
				}
			}
			fmt.Println(filepath.Base(path), err)
		}
		fmt.Println("listed", len(files(url)))
	}
}

// checkModes checks the modes of a directory and of everything in it, by kind of file. docs/protocol §28.1.
func checkModes(t *testing.T, dir string, want map[string]os.FileMode) {
	t.Helper()
	seen := make(map[string]bool)
	for _, path := range append(files(dir), dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		what := "file"
		switch name := filepath.Base(path); {
		case info.IsDir():
			what = "dir"
		case strings.HasSuffix(name, ".bell"):
			what = "bell"
		case name == "roll":
			what = name
		}
		if seen[what] = true; info.Mode() != want[what] {
			t.Errorf("%s, a %s, has mode %v, want %v", path, what, info.Mode(), want[what])
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%s has %v, want one of each of %v", dir, seen, want)
	}
}

// Two users share a fabric by a group and receive each other; a third one, outside of the group,
// receives nothing; and none can write to another's file. docs/protocol §28.1, §28.3, §28.7.
func TestOtherUser(t *testing.T) {
	if what := os.Getenv(actVar); what != "" {
		act(what, os.Getenv(urlVar))
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "running as another user requires root")
	}
	dir := scratch(t)
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil { // like /dev/shm
		t.Fatal(err)
	}
	bin, err := os.MkdirTemp("", "fanfare-test-") // some hosts permit no programs in /dev/shm
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(bin)
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(bin, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(exe, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("shm://desk?group=%d&dir=%s", shared, dir)
	lines := func(cmd *exec.Cmd) string {
		t.Helper()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the command failed: %v: %s", err, out)
		}
		return string(out)
	}

	// Alice subscribes, and Bob publishes.
	sub := asUser(t, exe, alice, shared, "subscribe", url)
	stdout, stderr := new(bytesBuffer), new(bytesBuffer)
	sub.Stdout, sub.Stderr = stdout, stderr
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	if out := lines(asUser(t, exe, bob, shared, "publish", url)); !strings.Contains(out, "published <nil>") {
		t.Errorf(`bob publishes: %s, want "published <nil>"`, out)
	}
	if err := sub.Wait(); err != nil || !strings.Contains(stdout.String(), "hello from another user <nil>") {
		t.Errorf(`alice receives: error %v, %s%s, want "hello from another user <nil>"`, err, stdout.all, stderr.all)
	}

	// While Alice's bus is open, no other user may write, and users outside of the group may not even list.
	sub = asUser(t, exe, alice, shared, "subscribe", url)
	ready, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sub.Process.Kill(); sub.Wait() }()
	if _, err := ready.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	fabric := filepath.Join(dir, fmt.Sprintf("fanfare-g%d", shared), "desk")
	for _, c := range []struct {
		user      string
		uid, gid  uint32
		act       string
		want, not []string
	}{
		{"bob", bob, shared, "write", []string{"permission denied", "roll <nil>", "listed 3"}, nil},
		{"bob", bob, shared, "truncate", []string{"permission denied"}, nil},
		{"bob", bob, shared, "read", []string{"listed 3"}, []string{"permission denied"}},
		{"mallory", mallory, alone, "read", []string{"listed 0"}, nil},
	} {
		out := lines(asUser(t, exe, c.uid, c.gid, c.act, fabric))
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s, %s: output %q lacks %q", c.user, c.act, out, w)
			}
		}
		for _, w := range c.not {
			if strings.Contains(out, w) {
				t.Errorf("%s, %s: output %q has %q, which it must not", c.user, c.act, out, w)
			}
		}
	}
	checkModes(t, filepath.Dir(fabric), map[string]os.FileMode{"dir": os.ModeDir | os.ModeSetgid | 0o770, "roll": 0o660, "bell": os.ModeNamedPipe | 0o620, "file": 0o640})
	if out := lines(asUser(t, exe, mallory, alone, "move", filepath.Dir(fabric))); !strings.Contains(out, "operation not permitted") {
		t.Errorf(`mallory moves the fabric: %s, want "operation not permitted"`, out)
	}
	if out := lines(asUser(t, exe, mallory, alone, "publish", url)); !strings.Contains(out, "not in that group") {
		t.Errorf(`mallory publishes: %s, want "not in that group"`, out)
	}
	// A member may remove files of another member, and users outside of the group may not.
	for _, c := range []struct {
		user     string
		uid, gid uint32
		left     int
	}{{"mallory", mallory, alone, 3}, {"bob", bob, shared, 0}} {
		if out := lines(asUser(t, exe, c.uid, c.gid, "remove", fabric)); len(files(fabric)) != c.left {
			t.Errorf("%s left the files %q, want %d: %s", c.user, files(fabric), c.left, out)
		}
	}
	// The user that created a directory first keeps others out, and their error names that user.
	for _, name := range []string{fmt.Sprintf("fanfare-%d", mallory), fmt.Sprintf("fanfare-g%d", alone)} {
		place := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(place, 0o700), os.Chown(place, bob, shared)); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range []string{fmt.Sprintf("shm://desk?dir=%s", dir), fmt.Sprintf("shm://desk?group=%d&dir=%s", alone, dir)} {
		if out := lines(asUser(t, exe, mallory, alone, "publish", url)); !strings.Contains(out, fmt.Sprintf("belongs to user %d", bob)) || !strings.Contains(out, "dir=") {
			t.Errorf("mallory publishes in the other user's directory: %s, want that it belongs to user %d", out, bob)
		}
	}
	// Without a group, each user has fabric names of its own.
	private := fmt.Sprintf("shm://desk?dir=%s", dir)
	bus, err := pubsub.Open(t.Context(), private)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	checkModes(t, filepath.Join(dir, "fanfare-0"), map[string]os.FileMode{"dir": os.ModeDir | 0o700, "roll": 0o600, "bell": os.ModeNamedPipe | 0o600, "file": 0o600})
	if out := lines(asUser(t, exe, mallory, alone, "read", filepath.Join(dir, "fanfare-0"))); !strings.Contains(out, "listed 0") {
		t.Errorf(`mallory reads: %s, want "listed 0"`, out)
	}
}
