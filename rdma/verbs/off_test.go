//go:build !rdma || !linux || !cgo

package verbs

import (
	"errors"
	"strings"
	"testing"
)

func TestNotBuilt(t *testing.T) {
	p, err := Open()
	if p != nil || !errors.Is(err, ErrNotBuilt) {
		t.Fatalf("Open returns %v, error %v, want nil and %v", p, err, ErrNotBuilt)
	}
	for _, want := range []string{"apt install libibverbs-dev librdmacm-dev", "go build -tags rdma"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
}
