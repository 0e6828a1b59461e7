package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// someOperands are valid operands for each command.
var someOperands = map[string]string{
	"pub": "a", "sub": "a", "request": "a b", "reply": "a b", "bench": "throughput", "dict": "a", "key": "show FILE",
	"completion": "bash", "help": "pub",
}

// All commands report wrong input in the same way: one line on standard error that begins with the
// command's name, nothing on standard output, and exit code 2.
func TestEveryCommandRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, []byte("neither a capture nor keys\n"))
	missing := filepath.Join(dir, "missing")
	refuses := func(says string, args ...string) {
		t.Helper()
		r := runWith(testContext(t), "", args...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "fanfare "+args[0]+": ") || !strings.Contains(r.stderr, says) {
			t.Errorf("fanfare %s\nexit code %d, standard output %q, standard error %q; want 2, nothing, and one line with %q", strings.Join(args, " "), r.code, r.stdout, r.stderr, says)
		}
	}
	for _, c := range commands() {
		operands := strings.Fields(strings.ReplaceAll(someOperands[c.name], "FILE", file))
		with := func(flags ...string) []string { return append(append([]string{c.name}, flags...), operands...) }
		refuses("'fanfare help -all "+c.name+"' lists the flags", with("-no-such-flag")...)
		refuses("'fanfare help -all "+c.name+"' lists the flags", append([]string{c.name, "--no-such-flag=3"}, operands...)...)
		if c.name != "dict" && c.name != "sub" && c.name != "top" && c.name != "web" && c.name != "loss" && c.name != "ls" { // these accept any number of operands
			refuses("", append([]string{c.name}, "a", "b", "c", "d", "e")...)
		}
		fs := newFlagSet(c.name)
		c.flags(fs)
		for _, f := range fs.added {
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				refuses("-"+f.Name, with("-"+f.Name+"=perhaps")...)
				continue
			}
			refuses("-"+f.Name, append(append([]string{c.name}, operands...), "-"+f.Name)...) // without its value
		}
		if fs.Lookup("t") != nil {
			for _, url := range []string{"carrier-pigeon://roof", "udp://nowhere", "udp://?bla=1", "://", "udp://?iface=nowhere0"} {
				refuses("", with("-t", url)...)
			}
		}
		if fs.Lookup("metrics") != nil && c.name != "bench" {
			refuses("-metrics", with("-t", memURL(t), "-metrics", "nowhere")...)
		}
	}
	for _, c := range []struct{ args, wantText string }{
		{"pub -t URL -file MISSING a", "MISSING: no such file"},
		{"pub -t URL -file DIR a", "DIR is a directory"},
		{"pub -t URL -compress zstd -dict MISSING a", "MISSING: no such file"},
		{"pub -t URL -compress zstd -dict DIR a", "DIR: is a directory"},
		{"sub -t URL -dict MISSING a", "MISSING: no such file"},
		{"sub -t URL -o DIR a", "DIR: is a directory"},
		{"sub -t URL -o MISSING/x a", "no such file"},
		{"sub -t URL?keys=MISSING a", "MISSING: no such file"},
		{"sub -t URL?keys=DIR a", "DIR: it is a directory"},
		{"sub -t URL?keys=FILE a", "FILE, line 1"},
		{"sub -t URL?map=table:MISSING a", "MISSING: the table cannot be read: no such file"},
		{"tap -r MISSING", "MISSING: no such file"},
		{"tap -r DIR", "DIR: "},
		{"tap -r FILE", "not a capture file"},
		{"dict MISSING", "MISSING: no such file"},
		{"dict DIR", "DIR: is a directory"},
		{"dict -o FILE FILE", "-force"},
		{"dict -force FILE", "-force needs -o"},
		{"dict -dict FILE FILE", "-dict needs -t"},
		{"key show MISSING", "MISSING: no such file"},
		{"key rotate FILE", "FILE, line 1"},
		{"key new FILE", "never overwritten: use another file"},
		{"key new MISSING/x", "no such file"},
		{"bench throughput -html MISSING/x -transport mem", "no such file"},
		{"web MISSING", "MISSING"},
		{"top MISSING", "MISSING"},
		{"loss MISSING", "MISSING"},
		{"top 10.0.0.5", "10.0.0.5: no such file or directory: a PLACE is the socket of a process"},
		{"top trade2:9465", "run the command there with ssh"},
		{"web trade2:9465", "run the command there with ssh"},
		{"loss trade2:9465", "run the command there with ssh"},
		{"ls -socket trade2:9465", "run the command there with ssh"},
	} {
		replace := strings.NewReplacer("URL", memURL(t), "MISSING", missing, "DIR", dir, "FILE", file)
		refuses(replace.Replace(c.wantText), strings.Fields(replace.Replace(c.args))...)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "neither a capture nor keys\n" {
		t.Errorf("a file was overwritten: %q, %v", got, err)
	}
}

// Without arguments each command that needs some reports which, and the program lists its commands.
func TestEveryCommandWithoutArguments(t *testing.T) {
	for _, name := range []string{"pub", "sub", "request", "reply", "bench", "dict", "key", "completion"} {
		if r := runWith(testContext(t), "", name); r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "fanfare "+name+": ") {
			t.Errorf("%s without arguments ended with %+v, want exit code %d and one line of standard error", name, r, exitUsage)
		}
	}
}
