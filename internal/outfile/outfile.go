// Package outfile replaces a file atomically: it has the old content until the new one is complete.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// File is a file that will be written.
type File struct {
	path string
	out  *os.File // a temporary file next to path, or path itself if it cannot be replaced
	swap bool     // out replaces path
}

// Create checks that path can be written, so that a caller fails before it does long work. A new file has mode perm
// before umask(2). path may be a device, a pipe or a link. The caller must call Close. Errors are an *fs.PathError.
func Create(path string, perm fs.FileMode) (*File, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if path, err = follow(path); err != nil {
			return nil, err
		}
		out, err := createTemp(path, perm)
		if err != nil {
			return nil, err
		}
		return &File{path, out, true}, nil
	}
	if err != nil {
		return nil, err
	}
	// The file itself must be writable. With O_NONBLOCK, opening a pipe without a reader is an error instead of blocking.
	out, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := &File{path, out, false}
	if !st.Mode().IsRegular() {
		return f, nil // the target of a link to a pipe, such as /dev/stdout, is not a path
	}
	if f.path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	next, err := createTemp(f.path, perm)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil, errors.Join(err, f.Close())
	}
	if err != nil {
		return f, nil // the directory cannot be written: out is the file itself
	}
	out.Close()
	f.out, f.swap = next, true
	if err := next.Chmod(st.Mode().Perm()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// maxLinks is the maximum length of a chain of links (path_resolution(7)).
const maxLinks = 40

// follow returns the target of symbolic links to a file that does not exist yet.
func follow(path string) (string, error) {
	for range maxLinks {
		st, err := os.Lstat(path)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			return path, nil // opening the file reports the error
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many levels of symbolic links")}
}

// createTemp creates a file in path's directory that can replace it.
func createTemp(path string, mode fs.FileMode) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%x", filepath.Base(path), rand.Uint64()))
		out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		var e *fs.PathError
		if errors.As(err, &e) {
			err = &fs.PathError{Op: "create", Path: path, Err: e.Err}
		}
		return out, err
	}
}

// Put writes b. It may be called once. If it fails and the file can be replaced, the old content stays.
func (f *File) Put(b []byte) error {
	if _, err := f.out.Write(b); err != nil {
		return f.named(err)
	}
	if !f.swap {
		if st, err := f.out.Stat(); err == nil && st.Mode().IsRegular() {
			return f.out.Truncate(int64(len(b)))
		}
		return nil
	}
	if err := errors.Join(f.out.Sync(), f.out.Close()); err != nil {
		return f.named(err)
	}
	err := os.Rename(f.out.Name(), f.path)
	if err == nil {
		f.out = nil
	}
	return err
}

// named sets the path in an error to that of the file.
func (f *File) named(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return &fs.PathError{Op: e.Op, Path: f.path, Err: e.Err}
	}
	return err
}

// Close discards the new file if it was not written.
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
