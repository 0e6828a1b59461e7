// Package docs checks the documents: decisions are complete and indexed, cited items exist, and links are valid.
package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

const root = "../.."

// decisions maps the number of each decision to its file.
func decisions(t *testing.T) map[int]string {
	t.Helper()
	files, err := filepath.Glob(root + "/docs/decisions/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	byNumber := make(map[int]string)
	for _, file := range files {
		name := filepath.Base(file)
		n, err := strconv.Atoi(name[:strings.IndexByte(name, '-')])
		if err != nil {
			t.Fatalf("%s: want a number and a dash before the name: %v", name, err)
		}
		if other, twice := byNumber[n]; twice {
			t.Errorf("%s and %s have the same number", other, name)
		}
		byNumber[n] = name
	}
	return byNumber
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Each decision has a title, its three parts in order, and a line in the index. A number may be
// missing, if that decision is in progress.
func TestDecisions(t *testing.T) {
	index := read(t, root+"/docs/decisions/README.md")
	all := decisions(t)
	heading := regexp.MustCompile(`(?m)^## (.*)$`)
	for _, n := range slices.Sorted(maps.Keys(all)) {
		name := all[n]
		text := read(t, root+"/docs/decisions/"+name)
		title, _, _ := strings.Cut(text, "\n")
		title, ok := strings.CutPrefix(title, fmt.Sprintf("# %d. ", n))
		if !ok {
			t.Errorf("%s begins with %q, want \"# %d. \" and its title", name, title, n)
			continue
		}
		var parts []string
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			parts = append(parts, m[1])
		}
		if !slices.Equal(parts, []string{"Context", "Decision", "Consequences"}) {
			t.Errorf("%s has the sections %q, want Context, Decision, Consequences", name, parts)
		}
		if line := fmt.Sprintf("| %d | [%s](%s) |\n", n, title, name); !strings.Contains(index, line) {
			t.Errorf("docs/decisions/README.md lacks the line %q", line)
		}
	}
	if n := strings.Count(index, "\n| ") - 1; n != len(all) {
		t.Errorf("docs/decisions/README.md lists %d decisions, but %d exist", n, len(all))
	}
}

// sources calls f with each text file of the tree that is not generated.
func sources(t *testing.T, f func(file, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "cache"):
			return filepath.SkipDir
		case slices.Contains([]string{".go", ".md", ".s", ".c", ".h", ".py", ".sh"}, filepath.Ext(file)):
			f(file, read(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// citation matches the ways to cite decisions: "docs/decisions, 17", "(decision 17)".
var citation = regexp.MustCompile(`(?:docs/decisions,|\b[Dd]ecisions?) ([0-9]+)\b`)

// Every cited decision exists.
func TestCitedDecisionsExist(t *testing.T) {
	all := decisions(t)
	cited := 0
	sources(t, func(file, text string) {
		if strings.HasSuffix(file, "docs_test.go") {
			return
		}
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if _, ok := all[n]; err != nil || !ok {
				t.Errorf("%s cites %q, which does not exist", file, m[0])
			}
			cited++
		}
	})
	if cited == 0 {
		t.Error("found no citation: has the format changed?")
	}
}

// link matches a Markdown link, and an image in HTML.
var link = regexp.MustCompile(`(?:\]\(|(?:src|srcset)=")([^)"\s]+)[)"]`)

// Every link from a document to a file of the tree is valid.
func TestLinks(t *testing.T) {
	links := 0
	sources(t, func(file, text string) {
		if filepath.Ext(file) != ".md" {
			return
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			}
		}
	})
	if links == 0 {
		t.Error("found no link")
	}
}

// The site (mkdocs.yml) has an entry for every document, and no other entries. Decisions are reached from their index.
func TestSite(t *testing.T) {
	shown := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^ +- [^:\n]+: (\S+\.md)$`).FindAllStringSubmatch(read(t, root+"/mkdocs.yml"), -1) {
		if shown[m[1]] {
			t.Errorf("mkdocs.yml has %s twice", m[1])
		}
		shown[m[1]] = true
	}
	err := filepath.WalkDir(root+"/docs", func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		name, err := filepath.Rel(root+"/docs", file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !shown[name] && !(strings.HasPrefix(name, "decisions/") && name != "decisions/README.md") {
			t.Errorf("mkdocs.yml lacks docs/%s", name)
		}
		delete(shown, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range shown {
		t.Errorf("mkdocs.yml has docs/%s, which does not exist", name)
	}
}

// The site builds, and all its links are valid.
func TestSiteBuilds(t *testing.T) {
	path, err := exec.LookPath("mkdocs")
	if err != nil {
		testenv.Skip(t, "mkdocs is not installed: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, "build", "--strict", "--quiet", "--site-dir", t.TempDir())
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("mkdocs build --strict: %v\n%s", err, out)
	}
}
