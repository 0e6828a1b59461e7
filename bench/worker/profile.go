package worker

import (
	"fmt"
	"io"
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
	w := &strictWriter{w: f}
	if err := pprof.StartCPUProfile(w); err != nil {
		f.Close()
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		err := f.Close()
		if w.err != nil {
			err = w.err
		}
		if err != nil {
			return fmt.Errorf("CPU profile: %w", err)
		}
		return nil
	}, nil
}

// strictWriter remembers the error that pprof drops: a disk that is full must not leave
// a profile that looks written.
type strictWriter struct {
	w   io.Writer
	err error
}

func (s *strictWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if s.err == nil {
		s.err = err
	}
	return n, err
}
