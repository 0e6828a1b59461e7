//go:build linux

package quickstart

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

var (
	inline    = regexp.MustCompile("`((?:fanfare|go test|test/lab/run test|cd [a-z/]+ && go run)( [^`]+)?)`")
	testName  = regexp.MustCompile(`\bTest[A-Z]\w+`)
	function  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	testFlag  = regexp.MustCompile(`flag\.\w+\((?:&\w+, )?"([\w.]+)"`)
	ofGoTest  = []string{"args", "run", "bench", "benchtime", "count", "cpuprofile", "race", "short", "fuzz", "fuzztime", "tags", "timeout", "v"}
	flagWord  = regexp.MustCompile(`^-([a-z][\w.-]*)`)
	quotation = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// Commands that are not run, and those within sentences, use existing commands and flags of
// fanfare, and existing tests and flags of tests. The same holds for marks that name a test.
func TestNamesExist(t *testing.T) {
	testenv.Slow(t)
	c := &checker{t: t, fanfare: filepath.Join(t.TempDir(), "fanfare"), help: make(map[string]string), tests: testsOf(t)}
	if out, err := goCommand(t, "build", "-o", c.fanfare, "./cmd/fanfare").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	for _, file := range pages(t) {
		text := read(t, file)
		c.file = file
		for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if !strings.HasPrefix(file, "docs/protocol/") { // docs/protocol contains labels of keys that look like commands
				c.line(m[1])
			}
		}
		for _, b := range blocksOf(text) {
			for _, name := range testName.FindAllString(b.notRun, -1) {
				if !slices.ContainsFunc(c.tests, func(s source) bool { return slices.Contains(s.functions, name) }) {
					t.Errorf("%s: unknown test %s, which should run %q", file, name, b.lines)
				}
			}
			if b.notRun != "" {
				for _, line := range b.lines {
					c.line(bare(line))
				}
			}
		}
	}
}

// source is a file of tests.
type source struct {
	dir              string // relative to the root
	functions, flags []string
}

func testsOf(t *testing.T) (all []source) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		s := source{dir: filepath.ToSlash(dir)}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			s.functions = append(s.functions, m[1])
		}
		for _, m := range testFlag.FindAllStringSubmatch(string(text), -1) {
			s.flags = append(s.flags, m[1])
		}
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checker checks lines of a page.
type checker struct {
	t             *testing.T
	fanfare, file string
	help          map[string]string
	tests         []source
}

// line checks each command of a line.
func (c *checker) line(line string) {
	for _, part := range regexp.MustCompile(`\||&&|;|\$\(|>`).Split(quotation.ReplaceAllStringFunc(line, unspaced), -1) {
		words := strings.Fields(part)
		for len(words) > 0 && slices.Contains([]string{"sudo", "echo"}, words[0]) {
			words = words[1:]
		}
		switch {
		case len(words) > 1 && (words[0] == "fanfare" || words[0] == "./fanfare"):
			c.command(line, words[1], words[2:])
		case len(words) > 1 && words[0] == "go" && words[1] == "test":
			c.goTest(line, words[2:])
		case len(words) > 1 && words[0] == "test/lab/run" && words[1] == "test":
			c.goTest(line, append([]string{"./test/lab"}, words[2:]...))
		}
	}
}

// unspaced returns a quotation as one word.
func unspaced(s string) string {
	return strings.NewReplacer(" ", "_", ">", "_", "|", "¦", "'", "", `"`, "").Replace(s)
}

// command checks name and flags of a command of fanfare.
func (c *checker) command(line, name string, args []string) {
	help, ok := c.help[name]
	if !ok {
		out, _ := exec.CommandContext(c.t.Context(), c.fanfare, "help", "-all", name).CombinedOutput()
		help = string(out)
		c.help[name] = help
	}
	if !strings.Contains(help, "fanfare "+name) {
		c.t.Errorf("%s: %s: unknown command %s", c.file, line, name)
		return
	}
	for _, a := range args {
		m := flagWord.FindStringSubmatch(a)
		if m != nil && !regexp.MustCompile(`(?m)^ +-`+regexp.QuoteMeta(m[1])+`\b`).MatchString(help) {
			c.t.Errorf("%s: %s: %s has no flag -%s", c.file, line, name, m[1])
		}
	}
}

// goTest checks packages, test names and flags of go test.
func (c *checker) goTest(line string, args []string) {
	var dirs, flags, names []string
	for i, a := range args {
		switch m := flagWord.FindStringSubmatch(a); {
		case m != nil:
			flags = append(flags, m[1])
			if slices.Contains([]string{"run", "bench", "fuzz"}, m[1]) && i+1 < len(args) {
				names = append(names, strings.FieldsFunc(args[i+1], func(r rune) bool { return strings.ContainsRune("¦|^$", r) })...)
			}
		case strings.HasPrefix(a, "./"):
			dirs = append(dirs, strings.TrimPrefix(a, "./"))
		}
	}
	of := func(s source) bool {
		return slices.ContainsFunc(dirs, func(d string) bool {
			under, all := strings.CutSuffix(d, "...")
			return s.dir == strings.TrimSuffix(d, "/") || all && strings.HasPrefix(s.dir+"/", under)
		})
	}
	for _, d := range dirs {
		if under := strings.TrimSuffix(strings.TrimSuffix(d, "..."), "/"); under != "" {
			if _, err := os.Stat(filepath.Join(root, under)); err != nil {
				c.t.Errorf("%s: line %s: %v", c.file, line, err)
			}
		}
	}
	for _, f := range flags {
		if !slices.Contains(ofGoTest, f) && !slices.ContainsFunc(c.tests, func(s source) bool { return of(s) && slices.Contains(s.flags, f) }) {
			c.t.Errorf("%s: %s: no test in the package has the flag -%s", c.file, line, f)
		}
	}
	for _, n := range names {
		n, _, _ = strings.Cut(n, "/")
		if strings.EqualFold(n, "xxx") || len(dirs) == 0 {
			continue
		}
		if !slices.ContainsFunc(c.tests, func(s source) bool {
			return of(s) && slices.ContainsFunc(s.functions, func(f string) bool { return strings.Contains(f, n) })
		}) {
			c.t.Errorf("%s: %s: no test in the package has the name %s", c.file, line, n)
		}
	}
}
