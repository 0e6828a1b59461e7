package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// script writes the completion script for a shell to a file.
func script(t *testing.T, shell string) (path string) {
	t.Helper()
	r := runWith(t.Context(), "", "completion", shell)
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("completion %s ended with %+v, want exit code 0 and no standard error", shell, r)
	}
	path = filepath.Join(t.TempDir(), "fanfare."+shell)
	writeFile(t, path, []byte(r.stdout))
	return path
}

// inShell runs a program in a shell, and returns its output.
func inShell(t *testing.T, dir, shell string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		testenv.Skip(t, "%s is not installed: %v", shell, err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "TERM=dumb")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s cannot run the script: %v\n%s", shell, err, out)
	}
	return string(out)
}

// completionCases are command lines whose last word is completed.
var completionCases = []struct {
	words []string
	want  string // sorted
}{
	{[]string{"p"}, "ping pub"},
	{[]string{"comp"}, "completion"},
	{[]string{"re"}, "reply request"},
	{[]string{"pub", "-f"}, "-faults -file -flow -framing"},
	{[]string{"pub", "--fr"}, "--framing"},
	{[]string{"pub", "topic", "-fr"}, "-framing"},
	{[]string{"pub", "-framing", ""}, "itch lines whole"},
	{[]string{"pub", "--framing", "w"}, "whole"},
	{[]string{"bench", "-order", "z"}, "zipf"},
	{[]string{"bench", "la"}, "latency"},
	{[]string{"bench", "-size", "100", "i"}, "idle"},
	{[]string{"pub", "-file", "some f"}, "some file"},
	{[]string{"sub", "--o", "some f"}, "some file"},
	{[]string{"sub", "so"}, ""}, // a topic is expected: no file names are offered
	{[]string{"help", "do"}, "doctor"},
	{[]string{"completion", ""}, "bash fish zsh"},
	{[]string{"mckey", "-M", ""}, ""},
	{[]string{"demo", "-flavor", "ro"}, "roce"},
}

func TestCompletionBash(t *testing.T) {
	path, dir := script(t, "bash"), shellDir(t)
	cases := append(slices.Clone(completionCases), []struct {
		words []string
		want  string
	}{
		{[]string{"bench", "-cpuprofile", ""}, "some dir"},
		{[]string{"pub", "-framing", "=", "l"}, "lines"}, // = breaks words in bash
		{[]string{"pub", "-framing", "="}, "itch lines whole"},
		{[]string{"pub", "--", "-fr"}, ""},
		{[]string{"nope", "-"}, ""},
	}...)
	for _, c := range cases {
		program := fmt.Sprintf(`source %s
COMP_WORDS=(fanfare "$@") COMP_CWORD=$#
_fanfare fanfare
printf '%%s\n' "${COMPREPLY[@]}"`, quote(path))
		got := inShell(t, dir, "bash", append([]string{"--norc", "-c", program, "bash"}, c.words...)...)
		checkCompletion(t, c.words, got, c.want)
	}
	// It is the function registered for bash.
	if got := inShell(t, dir, "bash", "--norc", "-c", "source "+quote(path)+"; complete -p fanfare"); !strings.Contains(got, "-F _fanfare fanfare") {
		t.Errorf("complete -p prints %q, want -F _fanfare", got)
	}
}

func TestCompletionFish(t *testing.T) {
	path, dir := script(t, "fish"), shellDir(t)
	for _, c := range completionCases {
		line := "fanfare"
		for _, w := range c.words {
			line += " " + strings.ReplaceAll(w, " ", `\ `)
		}
		got := inShell(t, dir, "fish", "--no-config", "-c", "source "+quote(path)+"; complete -C "+quote(line))
		var plain []string
		for l := range strings.Lines(got) {
			name, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			plain = append(plain, strings.ReplaceAll(name, `\ `, " "))
		}
		checkCompletion(t, c.words, strings.Join(plain, "\n"), c.want)
	}
}

// zsh completes only at a terminal, which the test creates.
func TestCompletionZsh(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	path, dir := script(t, "zsh"), shellDir(t)
	cases := []struct{ line, want string }{
		{"fanfare comp", "fanfare completion "},
		{"fanfare pub -fr", "fanfare pub -framing="},
		{"fanfare pub topic --fr", "fanfare pub topic --framing="},
		{"fanfare pub -framing w", "fanfare pub -framing whole "},
		{"fanfare pub --framing=w", "fanfare pub --framing=whole "},
		{`fanfare pub -file some\ f`, `fanfare pub -file some\ file `},
		{"fanfare bench la", "fanfare bench latency "},
		{"fanfare bench -size 3 id", "fanfare bench -size 3 idle "},
		{"fanfare help do", "fanfare help doctor "},
		{"fanfare completion f", "fanfare completion fish "},
		{"fanfare sub -js", "fanfare sub -json "},
		{"fanfare sub so", "fanfare sub so"},
	}
	program := `zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PS1=; unsetopt beep; autoload -Uz compinit; compinit -u -D; source '$1'
show() { print -r -- "<$BUFFER>"; BUFFER= }; zle -N show; bindkey "^G" show; bindkey "^I" complete-word; print -r -- read""y'
zpty -r -m z out '*ready*'
shift
for line; do
	zpty -w -n z $line$'\t\x07'
	zpty -r -m z out '*<*>*'
	out=${out##*<}
	print -r -- "<${out%%>*}>"
done`
	args := []string{"-f", "-c", program, "zsh", path}
	var want strings.Builder
	for _, c := range cases {
		args = append(args, c.line)
		want.WriteString("<" + c.want + ">\n")
	}
	if got := inShell(t, dir, "zsh", args...); got != want.String() {
		t.Errorf("completed to\n%swant\n%s", got, want.String())
	}
}

// shellDir is a directory with a file and a directory.
func shellDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "some file"), nil)
	if err := os.Mkdir(filepath.Join(dir, "some dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkCompletion(t *testing.T, words []string, got, want string) {
	t.Helper()
	list := strings.Split(strings.TrimSpace(got), "\n")
	slices.Sort(list)
	if got := strings.Join(list, " "); got != want {
		t.Errorf("fanfare %q completes to %q, want %q", words, got, want)
	}
}

// Every command and every flag is in each script.
func TestCompletionHasAll(t *testing.T) {
	for _, s := range shells {
		text := s.script(completions())
		for _, c := range commands() {
			fs := newFlagSet(c.name)
			c.flags(fs)
			for _, f := range fs.added {
				if !strings.Contains(text, f.Name) {
					t.Errorf("%s: %s -%s is missing", s.name, c.name, f.Name)
				}
			}
			if !strings.Contains(text, c.name) {
				t.Errorf("%s: %s is missing", s.name, c.name)
			}
		}
	}
}
