//go:build !linux

package doctor

func nftables() ([]string, error) { return nil, nil }
