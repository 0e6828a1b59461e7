//go:build !amd64

// Package prefetch asks the processor for memory that will be written or read soon.
package prefetch

// ToWrite does nothing here.
func ToWrite(*byte, int) {}

// ToRead does nothing here.
func ToRead(*byte, int) {}
