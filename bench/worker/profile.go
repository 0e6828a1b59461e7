package worker

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
)

// startProfile starts a CPU profile of the worker if requested. stop writes it at once, because
// pprof drops write errors.
func startProfile(spec Spec) (stop func() error, err error) {
	if spec.Profile == "" {
		return func() error { return nil }, nil
	}
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := os.WriteFile(fmt.Sprintf("%s-%s-%d.pprof", spec.Profile, spec.Role, os.Getpid()), b.Bytes(), 0o666); err != nil {
			return fmt.Errorf("CPU profile: %w", err)
		}
		return nil
	}, nil
}
