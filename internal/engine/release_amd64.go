//go:build !race

package engine

import "sync/atomic"

// storeRelease stores v in p, for a caller that nobody else writes p beside: what it stored before is visible to
// those who load v. On amd64 that takes no locked instruction, as p.Store does, which waits until all that was stored
// before has left for the cache: a message just was.
//
//go:noescape
func storeRelease(p *atomic.Uint64, v uint64)
