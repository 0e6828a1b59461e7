// Package arch keeps the project's structure: which package may depend on
// which (docs/architecture.md).
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fanfaremq/fanfare/"

// allowed lists, for each package, the packages of the module it may depend
// on, directly or not. A trailing /... allows all below.
var allowed = map[string][]string{
	"internal/crc":            {},
	"internal/wire":           {"internal/crc"},
	"internal/dissect":        {"internal/wire", "internal/crc"},
	"contrib/wireshark":       {"internal/dissect", "internal/wire", "internal/crc"},
	"contrib/envelope":        {},
	"internal/tap":            {"internal/dissect", "internal/compress", "internal/pattern", "internal/listset", "internal/wire", "internal/crc", "reliable", "internal/ring", "internal/idmap", "internal/prefetch", "transport", "rdma", "rdma/roce", "rdma/internal/...", "internal/linuxnet", "internal/offheap", "internal/netif"},
	"internal/pattern":        {"internal/listset", "internal/wire", "internal/crc"},
	"internal/ring":           {"internal/listset"},
	"internal/idmap":          {},
	"internal/listset":        {},
	"internal/prefetch":       {},
	"internal/logline":        {},
	"internal/histogram":      {},
	"internal/slow":           {},
	"internal/compress":       {"internal/wire", "internal/crc"},
	"internal/lossrecord":     {},
	"internal/bias":           {"internal/gid"},
	"internal/gid":            {},
	"internal/offheap":        {},
	"internal/netif":          {},
	"internal/linuxnet":       {},
	"internal/testenv":        {},
	"internal/uplot":          {},
	"internal/plural":         {},
	"internal/outfile":        {},
	"internal/shellword":      {},
	"transport":               {},
	"transport/mem":           {"transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"transport/udp":           {"transport", "transport/internal/...", "internal/linuxnet", "internal/offheap", "internal/netif"},
	"transport/shm":           {"internal/prefetch", "transport", "transport/internal/...", "internal/linuxnet", "internal/offheap", "internal/netif"},
	"transport/legs":          {"transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"transport/sealed":        {"transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"transport/sealed/...":    {"internal/logline", "transport", "transport/sealed", "transport/mem", "transport/internal/...", "internal/offheap", "internal/netif"},
	"transport/signed":        {"internal/logline", "internal/wire", "internal/crc", "internal/pattern", "internal/listset", "transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"transport/faulty":        {"transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"transport/ud":            {"internal/logline", "transport", "transport/internal/...", "internal/offheap", "rdma", "internal/netif"},
	"transport/simnet":        {"internal/logline", "internal/crc", "transport", "transport/ud", "transport/internal/...", "internal/offheap", "rdma", "rdma/fabric", "rdma/internal/soft", "internal/netif"},
	"transport/rocenet":       {"internal/logline", "internal/crc", "transport", "transport/ud", "transport/internal/...", "internal/linuxnet", "internal/offheap", "rdma", "rdma/roce", "rdma/internal/...", "internal/netif"},
	"transport/transporttest": {"transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"internal/groupmap":       {"transport", "internal/pattern", "internal/listset", "internal/plural", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch"},
	"reliable":                {"transport", "internal/pattern", "internal/listset", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch"},
	"internal/sim":            {"transport", "reliable", "internal/compress", "internal/pattern", "internal/listset", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow"},
	"internal/driver":         {"pubsub/events", "internal/plural", "internal/logline", "reliable", "internal/pattern", "internal/listset", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "transport", "transport/signed", "transport/internal/...", "internal/offheap", "internal/netif"},
	"pubsub":                  {"pubsub/events", "internal/logline", "internal/driver", "internal/groupmap", "internal/plural", "internal/inspect", "internal/compress", "internal/pattern", "internal/listset", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "internal/fabricurl", "internal/linuxnet", "internal/offheap", "transport/...", "rdma/...", "internal/netif"},
	"internal/elsewhere":      {"internal/inspect", "internal/logline", "internal/histogram"},
	"internal/web":            {"internal/shellword", "internal/elsewhere", "pubsub/events", "internal/losses", "internal/uplot", "internal/logline", "pubsub", "internal/driver", "internal/groupmap", "internal/plural", "internal/inspect", "internal/compress", "internal/pattern", "internal/listset", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "internal/fabricurl", "internal/linuxnet", "internal/offheap", "transport/...", "rdma/...", "internal/netif"},
	"pubsub/events":           {"internal/plural"},
	"pubsub/metrics":          {"pubsub/events", "internal/logline", "pubsub", "internal/driver", "internal/groupmap", "internal/plural", "internal/inspect", "internal/compress", "internal/pattern", "internal/listset", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "internal/fabricurl", "internal/linuxnet", "internal/offheap", "transport/...", "rdma/...", "internal/netif"},
	"internal/cli/top":        {"pubsub/events", "pubsub", "internal/...", "reliable", "transport/...", "rdma/..."},
	"internal/losses":         {"internal/shellword", "pubsub/events", "internal/logline", "pubsub", "internal/driver", "internal/groupmap", "internal/plural", "internal/inspect", "internal/compress", "internal/pattern", "internal/listset", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "internal/fabricurl", "internal/linuxnet", "internal/offheap", "transport/...", "rdma/...", "internal/netif"},
	"internal/metricserver":   {},
	"internal/inspect":        {"internal/logline", "internal/histogram"},
	"internal/cli":            {"pubsub/events", "bench", "bench/...", "pubsub", "pubsub/metrics", "internal/...", "reliable", "transport/...", "rdma/..."},
	"cmd/fanfare":             {"pubsub/events", "internal/...", "bench", "bench/...", "pubsub", "pubsub/metrics", "reliable", "transport/...", "rdma/..."},
	"docs/pictures":           {},
	"examples/...":            {"pubsub/events", "internal/logline", "examples/...", "pubsub", "internal/driver", "internal/groupmap", "internal/plural", "internal/inspect", "internal/compress", "internal/pattern", "internal/listset", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "internal/fabricurl", "internal/linuxnet", "internal/offheap", "transport/...", "rdma/...", "internal/netif"},
	"bench/...":               {"pubsub/events", "internal/logline", "bench/...", "internal/metricserver", "internal/outfile", "internal/uplot", "pubsub", "pubsub/metrics", "internal/driver", "internal/groupmap", "internal/plural", "internal/inspect", "internal/compress", "internal/pattern", "internal/listset", "reliable", "internal/wire", "internal/crc", "internal/ring", "internal/idmap", "internal/prefetch", "internal/slow", "internal/lossrecord", "internal/bias", "internal/gid", "internal/histogram", "internal/fabricurl", "internal/linuxnet", "internal/offheap", "transport/...", "rdma/...", "internal/netif"},
	"internal/fabricurl":      {"internal/prefetch", "internal/logline", "internal/crc", "rdma/...", "internal/linuxnet", "internal/offheap", "transport/...", "internal/netif"},
	"internal/doctor":         {"internal/prefetch", "internal/shellword", "transport", "transport/shm", "transport/internal/...", "internal/plural", "internal/crc", "rdma/...", "internal/linuxnet", "internal/offheap", "internal/netif"},
	"internal/doctor/peer":    {"internal/prefetch", "internal/doctor", "internal/shellword", "transport", "transport/shm", "transport/internal/...", "internal/plural", "internal/crc", "rdma/...", "internal/linuxnet", "internal/offheap", "internal/netif"},
	"rdma":                    {"internal/offheap"},
	"rdma/internal/...":       {"rdma", "rdma/internal/...", "internal/crc", "internal/offheap"},
	"rdma/verbs":              {"rdma", "rdma/verbs/internal/cverbs", "internal/offheap", "internal/netif"},
	"rdma/verbs/internal/...": {},
	"transport/verbsnet":      {"internal/logline", "transport", "transport/ud", "transport/internal/...", "internal/offheap", "rdma", "rdma/verbs", "rdma/verbs/internal/cverbs", "internal/netif"},
	"rdma/roce":               {"internal/crc", "rdma", "rdma/internal/...", "internal/linuxnet", "internal/offheap", "internal/netif"},
	"rdma/fabric":             {"internal/crc", "rdma", "rdma/internal/...", "internal/offheap"},
	"rdma/rdmatest":           {"internal/crc", "rdma", "rdma/internal/...", "internal/offheap"},
	"transport/internal/...":  {"transport", "transport/internal/...", "internal/offheap", "internal/netif"},
	"test/...":                {"..."},
}

func match(pattern, pkg string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(pkg, prefix) || pkg == strings.TrimSuffix(prefix, "/")
	}
	return pattern == pkg
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

func TestDependencies(t *testing.T) {
	for _, pkg := range goList(t, "./...") {
		name := strings.TrimPrefix(pkg, module)
		var rules []string
		found := false
		for pattern, may := range allowed {
			if match(pattern, name) {
				rules, found = append(rules, may...), true
			}
		}
		if !found {
			t.Errorf("%s is not in the table of allowed dependencies: add it to test/arch and to docs/architecture.md", name)
			continue
		}
		for _, dep := range goList(t, "-deps", pkg) {
			d, ours := strings.CutPrefix(dep, module)
			if strings.HasPrefix(dep, "charm.land/") && !match("internal/cli/...", name) && name != "cmd/fanfare" && !match("test/...", name) {
				t.Errorf("%s depends on %s, which is for the commands alone", name, dep)
			}
			if ours && d != name && !slices.ContainsFunc(rules, func(p string) bool { return match(p, d) }) {
				t.Errorf("%s depends on %s, which the architecture does not allow", name, d)
			}
		}
	}
}

// The core is pure: no clock, no I/O, no goroutine, no global randomness.
func TestCoreIsPure(t *testing.T) {
	for _, dir := range []string{"reliable", "internal/wire", "internal/ring", "internal/slow"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range f.Imports {
				path := strings.Trim(imp.Path.Value, `"`)
				if slices.Contains([]string{"net", "os", "syscall", "log", "log/slog", "context", "sync", "crypto/rand", "math/rand", "unsafe"}, path) || strings.HasPrefix(path, "golang.org/") {
					t.Errorf("%s imports %s", file, path)
				}
			}
			for _, word := range []string{"time.Now(", "time.Since(", "time.After", "time.NewTimer(", "time.Sleep(", "rand.IntN(", "rand.Float64(", "\tgo func", "\tgo "} {
				if strings.Contains(string(src), word) {
					t.Errorf("%s uses %q", file, strings.TrimSpace(word))
				}
			}
		}
	}
}

// All cgo is in one small package.
func TestCgoInOnePackage(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			if imp.Path.Value != `"C"` {
				continue
			}
			found++
			if filepath.ToSlash(filepath.Dir(path)) != "../../rdma/verbs/internal/cverbs" {
				t.Errorf("%s imports C", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no file with cgo was found: the test looks in the wrong place")
	}
}

// Who publishes and subscribes pulls in no HTTP.
func TestNoHTTP(t *testing.T) {
	for _, pkg := range []string{"pubsub", "internal/inspect"} {
		if slices.Contains(goList(t, "-deps", "./"+pkg), "net/http") {
			t.Errorf("%s depends on net/http", pkg)
		}
	}
}

// The command links no package with large tables of pointers: the collector goes through those each time it
// runs, in each process. docs/decisions, 78.
func TestNoTables(t *testing.T) {
	if slices.Contains(goList(t, "-deps", "./cmd/fanfare"), "github.com/gopacket/gopacket/layers") {
		t.Error("cmd/fanfare depends on gopacket/layers, whose tables are 5 MB of pointers")
	}
}

// gofmt is part of the tests, so that `go test ./...` is enough.
func TestFormatted(t *testing.T) {
	out, err := exec.Command("gofmt", "-l", "../..").CombinedOutput()
	if err != nil {
		t.Fatalf("gofmt: %v\n%s", err, out)
	}
	if files := strings.TrimSpace(string(out)); files != "" {
		t.Errorf("gofmt would change:\n%s", files)
	}
}
