//go:build !amd64

// Package prefetch asks the processor for memory that will be written soon.
package prefetch

// ToWrite does nothing here.
func ToWrite(*byte, int) {}
