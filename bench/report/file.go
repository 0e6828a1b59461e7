package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fanfaremq/fanfare/bench"
)

// File is where a report will be written. Until it is complete, what was there stays.
type File struct {
	path string
	out  *os.File // beside path, or path itself where that is no regular file
	swap bool     // out takes the place of path
}

// Create makes sure that a report can be written to path: that should not be learnt of
// after minutes of measuring. Close it.
func Create(path string) (*File, error) {
	mode := fs.FileMode(0o644)
	switch st, err := os.Stat(path); {
	case err == nil:
		// It must be writable, and a link goes on to lead where it did.
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		if !st.Mode().IsRegular() {
			return &File{path: path, out: out}, nil
		}
		out.Close()
		mode = st.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var e *fs.PathError
		if errors.As(err, &e) {
			err = &fs.PathError{Op: "create", Path: path, Err: e.Err}
		}
		return nil, err
	}
	f := &File{path: path, out: out, swap: true}
	if err := out.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Write writes the report of result, once.
func (f *File) Write(result bench.Result) error {
	err := Write(f.out, result)
	if err == nil && f.swap {
		if err = f.out.Close(); err == nil {
			if err = os.Rename(f.out.Name(), f.path); err == nil {
				f.out = nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write report %s: %w", f.path, err)
	}
	return nil
}

// Close gives up a report that was not written.
func (f *File) Close() error {
	if f.out == nil {
		return nil
	}
	out := f.out
	f.out = nil
	if !f.swap {
		return out.Close()
	}
	out.Close()
	return os.Remove(out.Name())
}
