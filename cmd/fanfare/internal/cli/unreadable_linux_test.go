package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Without the key, or with another one, a command receives nothing: it reports that and fails.
func TestUnreadableIsReported(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	dir := t.TempDir()
	url, ring, other := loopbackURL(t), filepath.Join(dir, "keys"), filepath.Join(dir, "other")
	for _, file := range []string{ring, other} {
		start(t, nil, "key", "new", file).end(t, exitOK)
	}
	pub := start(t, strings.NewReader(strings.Repeat("x\n", 100_000)), "pub", "-t", url+"&keys="+ring, "-rate", "2000", "x")
	cases := []struct {
		wantText string
		args     []string
	}{
		{"this bus has no keys: open it with that keyring (?keys=FILE)", []string{"sub", "-until", "10s", "-t", url, "x"}},
		{"which is not in the keyring: add its line to the file of keys=", []string{"sub", "-idle", "10s", "-t", url + "&keys=" + other, "x"}},
		{"this bus has no keys: open it with that keyring (?keys=FILE)", []string{"ls", "-for", "10s", "-t", url}},
		{"which is not in the keyring: add its line to the file of keys=", []string{"ls", "-for", "10s", "-t", url + "&keys=" + other}},
	}
	var all []*running // concurrently
	for _, c := range cases {
		all = append(all, start(t, nil, c.args...))
	}
	for i, c := range cases {
		r := all[i]
		r.end(t, exitMismatch)
		if text := r.stderr.String(); !strings.Contains(text, c.wantText) {
			t.Errorf("%q: standard error %q lacks %q", c.args, text, c.wantText)
		}
	}
	pub.cancel(nil)
	<-pub.done
}

// reply reports it, too, and continues; the requester does not detect it.
func TestReplyReportsUnreadable(t *testing.T) {
	dir := t.TempDir()
	url, ring, other := loopbackURL(t), filepath.Join(dir, "keys"), filepath.Join(dir, "other")
	for _, file := range []string{ring, other} {
		start(t, nil, "key", "new", file).end(t, exitOK)
	}
	const wantText = "which is not in the keyring: add its line to the file of keys="
	reply := start(t, nil, "reply", "-t", url+"&keys="+ring, "rpc", "yes")
	request := start(t, nil, "request", "-t", url+"&keys="+other, "-wait", "1", "-timeout", "1m", "rpc", "?")
	await(t, wantText, func() bool { return strings.Contains(reply.stderr.String(), wantText) })
	for _, r := range []*running{reply, request} {
		r.cancel(nil)
		<-r.done
	}
}

// A host without the new keyring after a rotation reports which key is missing, and not that the publisher was killed.
func TestLackingRotatedKey(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	dir := t.TempDir()
	url, ours, theirs := loopbackURL(t), filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	start(t, nil, "key", "new", ours).end(t, exitOK)
	text, err := os.ReadFile(ours)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, theirs, text)
	pub := start(t, strings.NewReader(strings.Repeat("x\n", 1_000_000)), "pub", "-t", url+"&keys="+ours, "-rate", "2000", "x")
	sub := start(t, nil, "sub", "-until", "end", "-t", url+"&keys="+theirs, "x")
	await(t, "a message", func() bool { return sub.stdout.String() != "" })
	rotated := start(t, nil, "key", "rotate", "-json", "-in", "0s", ours)
	rotated.end(t, exitOK)
	sub.end(t, exitMismatch)
	output := sub.stderr.String()
	if strings.Contains(output, "killed") || !strings.Contains(output, "fell silent before its end: it may now seal with key 0x") || !strings.Contains(output, "which is not in the keyring: add its line") {
		t.Errorf("sub printed %s, want a loss with advice to add the key", output)
	}
	pub.cancel(nil)
	<-pub.done
}
