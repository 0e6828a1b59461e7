//go:build !rdma || !linux || !cgo

package verbs

import "github.com/fanfaremq/fanfare/rdma"

// Open returns ErrNotBuilt: the program was built without the tag rdma.
func Open() (rdma.Provider, error) { return nil, ErrNotBuilt }
