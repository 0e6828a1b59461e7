package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built are the programs built in this test run, each in a folder below dir: linking one takes
// seconds, and most tests need the same ones.
var built struct {
	mu       sync.Mutex
	dir      string            // under mu
	programs map[string]string // under mu: file by build parameters
}

func TestMain(m *testing.M) {
	var err error
	if built.dir, err = os.MkdirTemp("", "fanfare-lab-built-"); err != nil {
		panic(err)
	}
	built.programs = make(map[string]string)
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// buildOnce copies a program into dir, and builds it the first time.
func buildOnce(t testing.TB, dir, pkg, env string, flags ...string) {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	how := strings.Join(append([]string{env, pkg}, flags...), " ")
	if built.programs[how] == "" {
		of, err := os.MkdirTemp(built.dir, "")
		if err != nil {
			t.Fatal(err)
		}
		goTool(t, []string{env}, append(append([]string{"build", "-o", of + "/"}, flags...), pkg)...)
		built.programs[how] = filepath.Join(of, filepath.Base(pkg))
	}
	from, to := built.programs[how], filepath.Join(dir, filepath.Base(pkg))
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.Link(from, to)); err != nil {
		t.Fatal(err)
	}
}

// Build builds a package of the module for the VMs, without rdma-core, and puts the binary into dir
// under the package's name. flags are passed to "go build". It is built like any test on this host,
// so that only linking remains to be done.
func Build(t testing.TB, dir, pkg string, flags ...string) {
	t.Helper()
	buildOnce(t, dir, pkg, "CGO_ENABLED=1", flags...)
}

// BuildRDMA is Build with tag rdma and cgo: rdma-core's libraries are in the VMs. It needs their
// headers on this host, which "test/lab/run setup" installs.
func BuildRDMA(t testing.TB, dir, pkg string, flags ...string) {
	t.Helper()
	buildOnce(t, dir, pkg, "CGO_ENABLED=1", append([]string{"-tags", "rdma"}, flags...)...)
}

// BuildTest builds a package's tests for the VMs: file is the binary, flags are passed to "go test". With cgo the
// program uses librdmacm, libibverbs and their provider for rxe of the VM, and the C library of this host.
func BuildTest(t testing.TB, file, pkg string, cgo bool, flags ...string) {
	t.Helper()
	env := "CGO_ENABLED=0"
	if cgo {
		env = "CGO_ENABLED=1"
	}
	goTool(t, []string{env}, append(append([]string{"test", "-c", "-o", file}, flags...), pkg)...)
}

func goTool(t testing.TB, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root(t)
	cmd.Env = append(append(os.Environ(), "GOOS=linux", "GOARCH=amd64"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v failed: %v\n%s", args, err, out)
	}
}
