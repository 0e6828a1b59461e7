//go:build !linux

package doctor

// memlockLimit is -1: no RDMA here.
func memlockLimit() int64 { return -1 }

func nftables() ([]string, error) { return nil, nil }
