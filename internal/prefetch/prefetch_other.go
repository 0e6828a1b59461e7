//go:build !amd64

// Package prefetch asks the processor to load memory that will soon be written or read into its cache.
package prefetch

// ToWrite does nothing on this processor.
func ToWrite(*byte, int) {}

// ToRead does nothing on this processor.
func ToRead(*byte, int) {}
