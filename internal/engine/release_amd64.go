//go:build !race

package engine

import "sync/atomic"

// storeRelease stores v in p, of which the caller is the only writer. Its earlier stores are visible to every goroutine
// that loads v. On amd64 that takes no locked instruction. p.Store does, and waits until all earlier stores, such as
// those of a message, have reached the cache.
//
//go:noescape
func storeRelease(p *atomic.Uint64, v uint64)
