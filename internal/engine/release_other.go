//go:build !amd64 || race

package engine

import "sync/atomic"

func storeRelease(p *atomic.Uint64, v uint64) { p.Store(v) }
