//go:build linux

package quickstart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// The Go snippets of the pages compile, as a program or as a function body; programs print the
// output in their last comment. All languages in use are checked.
func TestNamespaceSnippets(t *testing.T) {
	testenv.Slow(t)
	if !testenv.Namespace(t) {
		return
	}
	for _, file := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(read(t, file), -1) {
			switch language, source := m[1], m[2]; language {
			case "go":
				runSnippet(t, file, source)
			case "json":
				if !json.Valid([]byte(source)) {
					t.Errorf("%s: invalid JSON:\n%s", file, source)
				}
			default:
				t.Errorf("%s: no check for language %q:\n%s", file, language, source)
			}
		}
	}
}

// around returns a program for a function body.
func around(source string) string {
	used := map[string]string{"metrics.": "github.com/fanfaremq/fanfare/pubsub/metrics", "prometheus.": "github.com/prometheus/client_golang/prometheus", "sync.": "sync"}
	imports := `import ("context"; "errors"; "log"; "github.com/fanfaremq/fanfare/pubsub"`
	for name, path := range used {
		if strings.Contains(source, name) {
			imports += `; "` + path + `"`
		}
	}
	return "package main\n\n" + imports + ")\n\nvar _, _ = errors.As, log.Printf\n\n" +
		"func snippet(ctx context.Context, bus *pubsub.Bus, payload []byte) error {\n" +
		strings.ReplaceAll(source, "for msg, err := range sub.Messages(ctx) {", "for msg, err := range sub.Messages(ctx) {\n_, _ = msg, err") +
		map[bool]string{true: "return err\n", false: "return nil\n"}[strings.Contains(source, "err ")] + "}\n\nfunc main() { _ = snippet }\n"
}

func runSnippet(t *testing.T, file, source string) {
	args := []string{"run"}
	if !strings.HasPrefix(source, "package main") {
		args, source = []string{"vet"}, around(source)
	}
	path := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := goCommand(t, append(args, path)...).CombinedOutput()
	comments := strings.Split(source, "// ")
	want := strings.TrimSpace(strings.TrimRight(comments[len(comments)-1], "}\n"))
	if err != nil || args[0] == "run" && !strings.Contains(string(out), want) {
		t.Errorf("running %s: error %v, want the output %q:\n%s\n%s", file, err, want, out, source)
	}
}
