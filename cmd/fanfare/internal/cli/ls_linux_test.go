package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// ls reads the processes of this host through their sockets, in addition to the network or instead of it.
func TestLsHere(t *testing.T) {
	testenv.Slow(t)
	programOnly(t)
	dir := filepath.Join(t.TempDir(), "fanfare")
	t.Setenv(inspect.Variable, dir)
	empty := spawn(t, "ls", "-here")
	empty.end(t, exitIncomplete)
	if s := empty.stderr.String(); !strings.Contains(s, "No process of this user has a bus") || strings.Count(s, "\n") != 1 {
		t.Errorf("without processes, standard error is %s, want one line that no process has a bus", s)
	}
	url := loopbackURL(t)
	spawn(t, "sub", "-t", url, "-q", "md.a", "news.>")
	spawn(t, "pub", "-t", url, "-q", "-name", "prices", "-wait", "1", "md.a")
	var list string
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		p := spawn(t, "ls", "-here")
		<-p.waited
		if list = p.stdout.String(); strings.Count(list, "\n") == 3 && strings.Contains(list, " 1 ") && strings.Contains(list, "subscribes") {
			break
		}
	}
	lines := strings.Split(list, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "PROCESS") {
		t.Fatalf("ls writes %d lines, want 4 with a heading PROCESS:\n%s", len(lines), list)
	}
	for i, want := range []string{"subscribes md.a news.> 0 -", "publishes md.a 0 1"} {
		l := strings.Join(strings.Fields(strings.Join(lines[1:3], "\n")), " ")
		if !strings.Contains(l, want) {
			t.Errorf("line %d: %q lacks %q", i, l, want)
		}
	}
	for _, c := range []struct {
		args    []string
		code    int
		want    []string
		without []string
	}{
		{[]string{"-here", "news.x"}, exitOK, []string{"subscribes"}, []string{"publishes"}},
		{[]string{"-here", "zz"}, exitIncomplete, nil, []string{"PROCESS"}},
		{[]string{"-socket", dir, "-json"}, exitOK, []string{`"type":"process"`, `"topic":"md.a"`, `"topics":["md.a","news.>"]`}, []string{"summary"}},
		{[]string{"-t", url, "-for", "2s"}, exitOK, []string{"TOPIC", "md.a"}, []string{"PROCESS"}},
		{[]string{"-t", url, "-socket", dir, "-for", "2s"}, exitOK, []string{"PROCESS", "\n\nTOPIC"}, nil},
		{[]string{"-t", loopbackURL(t), "-socket", dir, "-for", "1s"}, exitOK, []string{"PROCESS"}, []string{"\nTOPIC"}},
		{[]string{"-t", url, "-here"}, exitUsage, nil, []string{"PROCESS"}},
		{[]string{"-socket", dir + "/missing"}, exitUsage, nil, nil},
	} {
		var p *process
		var out, missing string
		for range 10 { // a busy host may detect nothing within two seconds
			p = spawn(t, append([]string{"ls"}, c.args...)...)
			<-p.waited
			out, missing = p.stdout.String(), ""
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					missing = w
				}
			}
			if missing == "" && p.cmd.ProcessState.ExitCode() == c.code {
				break
			}
		}
		if p.end(t, c.code); missing != "" {
			t.Errorf("%q writes no %q: %s%s", c.args, missing, out, p.stderr.String())
		}
		for _, w := range c.without {
			if strings.Contains(out, w) {
				t.Errorf("%q writes %q, which it must not: %s", c.args, w, out)
			}
		}
	}
}

// Processes that do not answer are reported, and the exit code shows that the list is incomplete. A
// killed process does not count.
func TestUnanswered(t *testing.T) {
	testenv.Slow(t)
	programOnly(t)
	dir := filepath.Join(t.TempDir(), "fanfare")
	t.Setenv(inspect.Variable, dir)
	url := loopbackURL(t)
	var subs []*process
	for _, topic := range []string{"md.reads", "md.stopped", "md.stopped", "md.killed"} {
		subs = append(subs, spawn(t, "sub", "-t", url, "-q", topic))
	}
	await(t, "all to answer", func() bool {
		p := spawn(t, "ls", "-here")
		<-p.waited
		return strings.Count(p.stdout.String(), " md.") == len(subs)
	})
	for _, s := range subs[1:3] {
		s.stop(t)
		defer s.cmd.Process.Signal(syscall.SIGCONT)
	}
	subs[3].kill()
	cases := []struct{ command, out, err string }{
		{"ls -here", "md.reads", "2 processes did not answer, the first at "},
		{"ls -here -json", "md.reads", "no answer: it is stopped"},
		{"ls -for 100ms -socket " + dir, "md.reads", "2 processes did not answer"},
		{"top -once", "md.reads", "2 processes did not answer"},
		{"top -once -json", "md.reads", "2 processes did not answer"},
		{"loss", "Not read", "2 processes could not be read"},
	}
	ctx := testContext(t)
	for len(cases) > 0 { // on a busy host a running process may not answer in time either: try again
		var asking []*process // concurrently, because each waits for the processes that do not answer
		for _, c := range cases {
			asking = append(asking, spawn(t, strings.Fields(c.command)...))
		}
		left := cases[:0]
		for i, c := range cases {
			p := asking[i]
			p.end(t, exitIncomplete)
			if out, err := p.stdout.String(), p.stderr.String(); !strings.Contains(out, c.out) || !strings.Contains(err, c.err) {
				t.Logf("%s: no %q, or no %q, in\n%s%s", c.command, c.out, c.err, out, err)
				left = append(left, c)
			}
		}
		if cases = left; ctx.Err() != nil {
			t.Fatal("see the log above")
		}
	}
}
