//go:build rdma && linux && cgo

package verbs

import (
	"strings"
	"syscall"
	"testing"
)

// On a host without RDMA every call that needs a device returns an error with advice.
func TestNoDevice(t *testing.T) {
	p, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if names, err := p.Devices(); err == nil {
		if _, err := p.OpenDevice("no such device"); err == nil || len(names) > 0 && !strings.Contains(err.Error(), names[0]) {
			t.Errorf("OpenDevice fails with %v, want an error that lists the devices %q", err, names)
		}
		t.Skipf("this host has %v", names)
	}
	_, err1 := p.Devices()
	wantErrno(t, "Devices", err1, syscall.ENOSYS)
	_, err2 := p.OpenDevice("rxe0")
	wantErrno(t, "OpenDevice", err2, syscall.ENOSYS)
	_, err3 := p.NewEventChannel()
	wantErrno(t, "NewEventChannel", err3, syscall.ENODEV)
	for _, err := range []error{err1, err2, err3} {
		if err == nil || !strings.Contains(err.Error(), "modprobe rdma_rxe") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error has no advice: %v", err)
		}
	}
}
