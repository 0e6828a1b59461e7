package lab

import (
	"os"
	"os/exec"
	"testing"
)

// Build builds a package of the module for the VMs, without cgo, and puts the
// binary into dir under the package's name. flags go to "go build" before it.
func Build(t testing.TB, dir, pkg string, flags ...string) {
	t.Helper()
	goTool(t, []string{"CGO_ENABLED=0"}, append(append([]string{"build", "-o", dir + "/"}, flags...), pkg)...)
}

// BuildRDMA is Build with tag rdma and cgo: rdma-core's libraries are in the
// VMs. It needs their headers on this host, which "test/lab/run setup" installs.
func BuildRDMA(t testing.TB, dir, pkg string, flags ...string) {
	t.Helper()
	goTool(t, []string{"CGO_ENABLED=1"}, append(append([]string{"build", "-tags", "rdma", "-o", dir + "/"}, flags...), pkg)...)
}

// BuildTest builds a package's tests for the VMs: file is the binary, flags go
// to "go test". With cgo the program finds librdmacm, libibverbs and their
// provider for rxe in the VM, and the C library of this host.
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
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}
