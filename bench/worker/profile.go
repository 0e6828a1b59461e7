package worker

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// startProfile writes a CPU profile of the worker, if that is asked for, until
// stop is called.
func startProfile(spec Spec) (stop func() error, err error) {
	if spec.Profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(fmt.Sprintf("%s-%s-%d.pprof", spec.Profile, spec.Role, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
