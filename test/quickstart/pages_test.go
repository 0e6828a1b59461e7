package quickstart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// pages returns the documents whose commands and snippets are run: all documents.
func pages(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/guides/*.md", "docs/operate/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("pages of %s: %d, error %v, want at least one", pattern, len(found), err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, filepath.ToSlash(rel))
		}
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// block is an indented block of a page. It contains commands, unless the line before it has a mark.
type block struct {
	lines  []string // without indentation
	output bool     // <!-- output -->: not commands
	notRun string   // <!-- not run: WHY -->
}

var (
	fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```\n")
	mark  = regexp.MustCompile(`<!-- (output|not run: (.+)) -->`)
)

// blocksOf returns the indented blocks of a page.
func blocksOf(text string) (blocks []block) {
	before, open := "", false // the last line without indentation; within a block
	for line := range strings.Lines(fence.ReplaceAllString(text, "\n")) {
		switch indented := strings.HasPrefix(line, "    "); {
		case strings.TrimSpace(line) == "":
		case !indented:
			before, open = line, false
			continue
		case !open:
			m := mark.FindStringSubmatch(before)
			b := block{output: m != nil && m[1] == "output"}
			if m != nil {
				b.notRun = m[2]
			}
			blocks, open = append(blocks, b), true
			fallthrough
		default:
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, strings.TrimSpace(line))
		}
	}
	return blocks
}

// A block without a mark contains commands, and a mark applies to the next block.
func TestBlocks(t *testing.T) {
	text := "Say\n\n    a\n\n    b\nand see <!-- output -->\n\n    c\n\n<!-- not run: why -->\n\n    d\n\n```go\n    e\n```\n\n1. In a list:\n\n       f\n"
	var got []string
	for _, b := range blocksOf(text) {
		got = append(got, strings.Join(b.lines, " "))
		if b.output {
			got = append(got, "output")
		}
		if b.notRun != "" {
			got = append(got, b.notRun)
		}
	}
	if s := strings.Join(got, ", "); s != "a b, c, output, d, why, f" {
		t.Errorf("found %q, want a b, c, output, d, why, f", s)
	}
}
