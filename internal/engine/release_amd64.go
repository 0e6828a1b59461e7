//go:build !race

package engine

import "sync/atomic"

// storeRelease stores v in p, where the caller is the only writer of p: its earlier stores are visible to every
// goroutine that loads v. On amd64 that takes no locked instruction, as p.Store does, which waits until all that
// was stored before has left for the cache: a message just was.
//
//go:noescape
func storeRelease(p *atomic.Uint64, v uint64)
