package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// ErrBusy: another process or goroutine is changing a keyring and has not finished in time. The call can be retried.
var ErrBusy = errors.New("it is being changed")

const (
	lockWait = 10 * time.Second      // how long a change waits for others
	lockPoll = 20 * time.Millisecond // interval of attempts to lock
)

// lock is the right to change a keyring: a lock of the system, which ends with its process, on a separate lock file in
// the keyring's directory. The existence of that file alone has no meaning.
type lock struct {
	f    *os.File
	name string
}

// lockName is the lock file of a keyring; target must not be a symbolic link.
func lockName(target string) string {
	return filepath.Join(filepath.Dir(target), ".keyring-"+filepath.Base(target)+".lock")
}

// acquire locks a keyring; target must not be a symbolic link. It waits while another process has the lock: after
// lockWait it returns an ErrBusy that names the holder, and when ctx ends, the context's error.
func acquire(ctx context.Context, target string) (*lock, error) {
	for waited := time.Duration(0); ; waited += lockPoll { // not a time, which would include that of a stopped process
		l, by, err := tryLock(target)
		switch {
		case err != nil || l != nil:
			return l, err
		case waited >= lockWait:
			return nil, fmt.Errorf("%w by %s, which has not finished within %v: retry when it has, or end it", ErrBusy, by, lockWait)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// tryLock locks a keyring. The lock is nil if another process has it; by names that process.
func tryLock(target string) (l *lock, by string, err error) {
	name := lockName(target)
	f, err := openLock(name)
	if err != nil {
		return nil, "", fmt.Errorf("its lock, %s, cannot be opened (%w): run this as a user with write permission for the directory, and remove that file if it belongs to another user", name, cause(err))
	}
	if l, by, err = acquireOnce(f, name, target); l == nil {
		f.Close()
	}
	return l, by, err
}

// acquireOnce locks the open lock file of a keyring. Its results are those of tryLock.
func acquireOnce(f *os.File, name, target string) (l *lock, by string, err error) {
	held, err := lockFile(f)
	if err != nil {
		return nil, "", fmt.Errorf("%s cannot be locked (%w): change a copy of the keyring on a local file system, and copy it back", name, err)
	}
	if !held || !isFile(f, name) { // otherwise its last holder has removed it, and others lock a new file
		return nil, holder(f), nil
	}
	l = &lock{f, name}
	old, err := os.Stat(target)
	if err == nil {
		err = keepOwner(f, old) // so that the owner can lock it, too, if root leaves it
	}
	if err != nil {
		l.release()
		return nil, "", cause(err)
	}
	l.sign()
	return l, "", nil
}

// isFile reports whether name still refers to f.
func isFile(f *os.File, name string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(is, there)
}

// sign writes the id of this process to the lock file, for messages of others, so errors are ignored.
func (l *lock) sign() {
	host, _ := os.Hostname()
	if l.f.Truncate(0) == nil {
		fmt.Fprintf(l.f, "%d %q\n", os.Getpid(), host)
	}
}

// holder returns what sign wrote to a lock file, as text.
func holder(f *os.File) string {
	var pid int
	var host string
	if _, err := fmt.Fscanf(io.LimitReader(f, 300), "%d %q\n", &pid, &host); err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d of host %q", pid, host)
}

// release removes the lock file and then releases the lock: in this order, so that it does not remove the file of
// another holder.
func (l *lock) release() {
	if runtime.GOOS != "windows" { // on Windows an open file cannot be removed
		os.Remove(l.name)
	}
	unlockFile(l.f)
	l.f.Close()
}

// locked calls do while it holds the lock of a keyring. It follows a symbolic link. Errors are an *Error, except those
// of ctx.
func locked(ctx context.Context, file string, do func(target string, old fs.FileInfo) error) error {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return &Error{File: file, Err: cause(err)}
	}
	l, err := acquire(ctx, target)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		return &Error{File: file, Err: err}
	}
	defer l.release()
	old, err := os.Stat(target)
	if err != nil {
		return &Error{File: file, Err: cause(err)}
	}
	return do(target, old)
}
