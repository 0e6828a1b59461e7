package cli

import (
	"bytes"
	"context"
	"flag"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

type result struct {
	code           int
	stdout, stderr string
}

// runWith runs a command line in this process.
func runWith(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := Run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// memURL is a fabric that no other test uses.
func memURL(t *testing.T) string {
	return "mem://" + regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-")
}

// Wrong usage and wrong input yield one line on standard error with a remedy, and exit code 2;
// nothing is sent or written.
func TestWrongUsage(t *testing.T) {
	testenv.Slow(t)
	url := memURL(t)
	witness, err := pubsub.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer witness.Close()
	for _, topic := range []string{"a", "b", "ping.default", "pong.default"} {
		if _, err := witness.Subscribe(topic); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, []byte(content))
		return path
	}
	good, cutOff := file("good", "a\nb\n"), file("cut-off", "\x00\x03abc\x00\x05d")
	large := file("large", strings.Repeat("x", maxMessage+1))
	for _, c := range []struct {
		args     string
		wantText string // expected in the line
	}{
		{"", "no command"},
		{"publish", "not a command"},
		{"help me", "no help on"},
		{"pub -t URL", "no topic"},
		{"sub -t URL", "no topic"},
		{"pub -t URL a b", "publishes on one"},
		{"key", "no action given"},
		{"key make x", "not a valid action"},
		{"key new", "no file given"},
		{"key new a b", "one file"},
		{"key show -in 1h a", "-in has no effect with show"},
		{"key rotate -in -1h a", "0s or more"},
		{"key new -valid 0s a", "1s or more"},
		{"pub -t URL?keys= a", "names no file"},
		{"pub -t URL a -file", "flag needs an argument"},
		{"pub -t URL -nope a", "-nope"},
		{"pub -t URL a -nope", "-nope"},
		{"pub -t URL a..b", "empty token"},
		{"pub -t URL a.*", "wildcards"},
		{"sub -t URL a >.b", "must be the last one"},
		{"sub -t URL a*", "must be a token by itself"},
		{"sub -t URL " + strings.Repeat("x", 256), "longer than 255"},
		{"pub -t carrier-pigeon://roof a", "carrier-pigeon"},
		{"pub -t URL?bla=1 a", "bla"},
		{"pub -t udp://192.0.2.1 a", "multicast"},
		{"sub -t udp://239.20.0.0/16?iface=nope a", "nope"},
		{"sub -t :// a", "invalid URL"},
		{"sub -t udp:/239 a", "write udp://239.20.0.0/16"},
		{"sub -t udp:/20 a", "write udp://239.20.0.0/20"},
		{"pub -t URL -file " + filepath.Join(dir, "missing") + " a", "missing"},
		{"pub -t URL -file " + dir + " a", "directory"},
		{"pub -t URL -framing itch -file " + cutOff + " a", "message 2, at byte 5, is truncated"},
		{"pub -t URL -file " + large + " a", "line 1"},
		{"pub -t URL -framing whole -file " + large + " a", "16777216"},
		{"pub -t URL -framing xml -file " + good + " a", "lines, itch, whole"},
		{"pub -t URL -flow most -file " + good + " a", "min, quorum:N, max, tag:TAG, quorum:N,tag:TAG, max,tag:TAG, none"},
		{"pub -t URL -flow quorum:x -file " + good + " a", "-flow quorum:x must be min, max"},
		{"pub -t URL -flow quorum:0 -file " + good + " a", "-flow quorum:0 must be"},
		{"pub -t URL -flow tag: -file " + good + " a", "tag:TAG with a subscribers' tag"},
		{"pub -t URL -flow none,tag:a -file " + good + " a", "it must be one of"},
		{"sub -t URL -tag a,b a", "-tag \"a,b\" must be at most 32 bytes"},
		{"pub -t URL -slow-behind -1 -file " + good + " a", "-slow-behind -1 must be"},
		{"pub -t URL -slow-for 0s -file " + good + " a", "-slow-for: it must be more than 0s"},
		{"pub -t URL -rate fast -file " + good + " a", "messages a second"},
		{"pub -t URL -rate -1 -file " + good + " a", "messages a second"},
		{"pub -t URL -rate NaN -file " + good + " a", "messages a second"},
		{"pub -t URL -wait -1 -file " + good + " a", "-wait: it must be 0 or more"},
		{"pub -t URL -wait x -file " + good + " a", "whole number"},
		{"pub -t URL -repeat 0 -file " + good + " a", "1 or more"},
		{"pub -t URL -repeat 2 a", "-file"},
		{"pub -t URL -linger -1s -file " + good + " a", "0s or more"},
		{"pub -t URL -linger 5 -file " + good + " a", "500ms"},
		{"pub -t URL -stall-limit 48h -file " + good + " a", "-stall-limit 48h0m0s must be at most 24h0m0s, or 0, which waits forever\n"},
		{"pub -t URL -silence 48h -file " + good + " a", "-silence 48h0m0s must be above 0, and at most 24h0m0s\n"},
		{"pub -silence 0s a", "-silence: it must be more than 0s"},
		{"pub -t URL -slow-for 48h -slow-behind 9 -file " + good + " a", "-slow-for 48h0m0s must be above 0, and at most 24h0m0s\n"},
		{"pub -t URL -name x\x1b[31m -file " + good + " a", `-name "x\x1b[31m" must be at most 64 bytes`},
		{"sub -t udp://?iface=nowhere0 a", `open "udp://?iface=nowhere0"`},
		{"pub -t URL -faults loss=2 -file " + good + " a", "loss=2"},
		{"pub -t URL -faults lost -file " + good + " a", "name=value"},
		{"sub -t URL -faults loss=0.1,loss=0.1 a", "twice"},
		{"sub -t URL -faults wind=3 a", "wind"},
		{"sub -t URL -n 0 a", "-n: it must be more than 0"},
		{"loss -since 2h", "from 1s to 1h0m0s"},
		{"loss -since 0s", "from 1s to 1h0m0s"},
		{"web -listen 0.0.0.0:0", "can be reached from other hosts"},
		{"web -listen nowhere", "nowhere"},
		{"web -listen=", "-listen is empty"},
		{"web /nowhere/at/all", "/nowhere/at/all"},
		{"sub -t URL -n -3 a", "not negative"},
		{"sub -t URL -idle 5 a", "500ms"},
		{"sub -t URL -idle -5s a", "0s or more"},
		{"sub -t URL -slow never a", "auto, block, gap, latest, evict, conflate"},
		{"sub -t URL -from old a", "live, window, state, file:FILE"},
		{"sub -t URL -from file: a", "-from file: needs a file name"},
		{"sub -t URL -behind 10 a", "-behind needs -slow latest or -slow evict"},
		{"sub -t URL -slow latest -behind -1 a", "-behind"},
		{"sub -t URL -slow evict -behind 99999999999 a", "-behind: it must be from 0 to 2147483647"},
		{"sub -t URL -o " + filepath.Join(dir, "no", "dir") + " a", "no"},
		{"sub -t URL -json -framing itch a", "-o"},
		{"ls -t URL a..b", "empty token"},
		{"ls -t URL -for 0s", "-for: it must be more than 0s"},
		{"ls -t URL -for 5", "500ms"},
		{"ls -t carrier-pigeon://roof", "carrier-pigeon"},
		{"ping -t URL a b", "one name"},
		{"ping -t URL -size 3", "16"},
		{"ping -t URL -interval -1s", "0s or more"},
		{"top -json -view legs", "-json prints everything"},
		{"top -once -json -filter x", "-json prints everything"},
		{"ping -t URL -timeout 0s", "more than 0"},
		{"ping -t URL -listen -count 3", "-listen"},
		{"ping -t URL a..b", "empty token"},
		{"bench request -rate 5", "-rate has no effect in request"},
		{"bench request -size 4", "from 24"},
		{"bench request -transport mem", "works within one process"},
		{"bench request -requests 0", "-requests 0 must be from 1"},
		{"bench request -loss 1", "0.01 is one packet in a hundred"},
		{"bench throughput -requests 5", "-requests is only for request"},
		{"request -t URL", "no topic given"},
		{"request -t URL a b c", "\"c\" is too many"},
		{"request -t URL a.> b", "wildcards"},
		{"request -t URL -replies -1 a b", "-replies: it must be 0 or more"},
		{"request -t URL -wait -1 a b", "-wait: it must be 0 or more"},
		{"request -t URL -timeout 0s a b", "more than 0"},
		{"reply -t URL", "no topic given"},
		{"reply -t URL a", "no reply given"},
		{"reply -t URL a b c", "\"c\" is too many"},
		{"reply -t URL -exec cat a b", "either a text or -exec"},
		{"reply -t URL -jobs 2 a b", "-jobs needs -exec"},
		{"reply -t URL -exec cat -jobs 0 a", "-jobs: it must be 1 or more"},
		{"reply -t URL a..b c", "empty token"},
		{"tap -t URL a", "-topic"},
		{"tap -t URL -r " + good + " -i lo", "use one of the two"},
		{"tap -t URL -n 0", "-n: it must be more than 0"},
		{"tap -t URL -until 0s", "more than 0s"},
		{"tap -t URL -summary -type data", "leave one out"},
		{"tap -t URL -group 4-2", "such as 0,3,8-11"},
		{"tap -t URL -group 99", "has the groups 0 to 15"},
		{"tap -t URL -type nack", "is not one of data, heartbeat"},
		{"tap -t URL -topic a..b", "empty token"},
		{"tap -t URL -r " + good, "have no addresses"},
		{"tap -r " + good, "neither pcap nor pcapng"},
		{"tap -r " + filepath.Join(dir, "missing"), "missing"},
		{"tap -i nowhere0", "nowhere0"},
		{"tap -t udp://?iface=nowhere0", "nowhere0"},
		{"tap -t carrier-pigeon://roof", "carrier-pigeon"},
		{"version 1", "no arguments"},
		{"help pub sub", "no help on"},
		{"completion", "bash, zsh, fish"},
		{"completion csh", "bash, zsh, fish"},
		{"completion bash zsh", "takes one shell"},
	} {
		r := runWith(t.Context(), "input\n", strings.Fields(strings.ReplaceAll(c.args, "URL", url))...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "fanfare") || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("fanfare %s\nexit code %d, standard output %q, standard error %q; want 2, nothing, and one line with %q", c.args, r.code, r.stdout, r.stderr, c.wantText)
		}
	}
	if st := witness.Stats(); st.Transport.PacketsReceived != 0 {
		t.Errorf("%d packets were sent, want none", st.Transport.PacketsReceived)
	}
}

// Help is available in every form, fits a terminal, and explains every flag.
func TestHelp(t *testing.T) {
	for _, c := range commands() {
		text := c.help(true)
		fs := newFlagSet(c.name)
		c.flags(fs)
		added := make(map[string]bool)
		for _, f := range fs.added {
			added[f.Name] = true
			name, usage := unquoteUsage(f)
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); usage == "" || name != strings.ToUpper(name) || (name == "") != (ok && b.IsBoolFlag()) {
				t.Errorf("%s -%s: its value is called %q, its usage is %q, want a value in capitals, except of a boolean, and a usage", c.name, f.Name, name, usage)
			}
			if !regexp.MustCompile(`(?m)^  -` + f.Name + `( [A-Z]+)?( +[^ ]|$)`).MatchString(text) {
				t.Errorf("help of %s lacks -%s", c.name, f.Name)
			}
		}
		fs.VisitAll(func(f *flag.Flag) {
			if !added[f.Name] {
				t.Errorf("%s -%s was not added by add", c.name, f.Name)
			}
		})
		for _, args := range [][]string{{"help", "-all", c.name}, {"help", c.name}, {c.name, "-h"}, {c.name, "-help"}, {c.name, "a", "--help"}} {
			if r := runWith(t.Context(), "", args...); r.code != 0 || r.stdout != c.help(args[1] == "-all") || r.stderr != "" {
				t.Errorf("fanfare %v: exit code %d, standard error %q, want 0, the help and nothing", args, r.code, r.stderr)
			}
		}
		short := c.help(false)
		if all := "All " + count(len(fs.added), "flag"); strings.Contains(short, all) != (len(fs.added) > shortFlags) {
			t.Errorf("short help of %s has %q, or lacks it although flags are left out:\n%s", c.name, all, short)
		}
		for _, name := range map[string][]string{"ls": {"json"}, "sub": {"from", "slow"}}[c.name] {
			if !strings.Contains(short, "\n  -"+name+" ") {
				t.Errorf("short help of %s lacks -%s", c.name, name)
			}
		}
		for line := range strings.SplitSeq(c.examples, "\n") {
			if !strings.HasPrefix(line, "fanfare "+c.name) && !strings.Contains(line, "(fanfare "+c.name) {
				t.Errorf("help of %s has the example %q, want one of the command", c.name, line)
			}
		}
		if !strings.Contains(text, "Exit codes:\n  0  ") || len(c.examples) == 0 {
			t.Errorf("help of %s lacks exit codes or examples", c.name)
		}
		if !regexp.MustCompile(`(?m)^  ` + c.name + ` +[^ ]`).MatchString(rootHelp()) {
			t.Errorf("help lacks %s", c.name)
		}
		for _, line := range strings.Split(text+c.help(false)+rootHelp()+urlHelp, "\n") {
			if n := utf8.RuneCountInString(line); n > 86 {
				t.Errorf("a line of %s's help has %d characters, want at most 86: %q", c.name, n, line)
			}
		}
	}
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		if r := runWith(t.Context(), "", args...); r.code != 0 || r.stdout != rootHelp() || r.stderr != "" {
			t.Errorf("fanfare %v: exit code %d, standard error %q, want 0, the help and nothing", args, r.code, r.stderr)
		}
	}
	for _, args := range []string{"version", "-version", "--version"} {
		if r := runWith(t.Context(), "", args); r.code != 0 || !strings.HasPrefix(r.stdout, "fanfare ") {
			t.Errorf("fanfare %s ended with %+v, want exit code 0 and the version", args, r)
		}
	}
}

// The operands of bench are exactly the scenarios.
func TestScenariosHaveHelp(t *testing.T) {
	if got, want := texts(scenarios, " "), strings.Join(bench.Scenarios(), " "); got != want {
		t.Errorf("help has %s, package bench %s", got, want)
	}
}

// Help shows everything that package flag knows about a flag.
func TestFlagHelp(t *testing.T) {
	fs := newFlagSet("test")
	stringVar(fs, new(string), "o", "", "write to `FILE`")
	boolVar(fs, new(bool), "q", "say nothing")
	durationVar(fs, new(time.Duration), "timeout", time.Minute, "how long to wait")
	intVar(fs, new(int), "count", 0, "`N` messages")
	choiceVar(fs, new(string), "order", "order in which", plainWords("round", "zipf", "bursts")...)
	choiceVar(fs, new(string), "framing", "how messages are separated in the input", word{"lines", "each line is a message"},
		word{"whole", "the input is one message, however long it is and whatever it holds, so that it may be a file"})
	intVar(fs, new(int), "a-rather-long-name", 3, "of `N`")
	var b strings.Builder
	for _, f := range fs.added {
		writeFlag(&b, f)
	}
	const want = `  -o FILE         write to FILE
  -q              say nothing
  -timeout D      how long to wait. Default 1m
  -count N        N messages
  -order WORD     order in which: round (default), zipf or bursts
  -framing WORD   how messages are separated in the input:
                  lines (default): each line is a message
                  whole: the input is one message, however long it is and
                  whatever it holds, so that it may be a file
  -a-rather-long-name N
                  of N. Default 3
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestFlagsAnywhere(t *testing.T) {
	for _, c := range []struct{ args, operands, o string }{
		{"-o x a b", "a b", "x"},
		{"a -o x b", "a b", "x"},
		{"a b -o=x", "a b", "x"},
		{"a -- -o x", "a -o x", ""},
		{"-- a -o x", "a -o x", ""},
		{"a -o -- b", "a b", "--"},
		{"a --o x b", "a b", "x"},
		{"--o=x a b", "a b", "x"},
		{"", "", ""},
	} {
		fs := newFlagSet("test")
		o := fs.String("o", "", "")
		operands, err := fs.parse(strings.Fields(c.args))
		if got := strings.Join(operands, " "); err != nil || got != c.operands || *o != c.o {
			t.Errorf("%q: operands %q, -o %q, %v; want %q, %q", c.args, got, *o, err, c.operands, c.o)
		}
	}
}
