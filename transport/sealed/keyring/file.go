package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

// Read reads a keyring. On systems with file modes it refuses a file that users other than its owner can read or
// change. Errors are an *Error.
func Read(file string) ([]sealed.Key, error) {
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	return parse(file, text)
}

func parse(file string, text []byte) ([]sealed.Key, error) {
	keys, err := Parse(text)
	var e *Error
	if errors.As(err, &e) {
		e.File = file
	}
	return keys, err
}

func readText(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise opening a pipe would wait for a writer
	if err != nil {
		return nil, &Error{File: file, Err: cause(err)}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &Error{File: file, Err: cause(err)}
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, &Error{File: file, Err: errors.New("it is a directory")}
	case !mode.IsRegular():
		return nil, &Error{File: file, Err: errors.New("it is not a regular file, so changes of it could not be read")}
	case mode.Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return nil, &Error{File: file, Err: fmt.Errorf("others than its owner may use it (mode %04o): run chmod 600 %s, and make new keys if another user may have read it", mode.Perm(), file)}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1)) // the file may be growing
	if err != nil {
		return nil, &Error{File: file, Err: cause(err)}
	}
	if len(text) > maxBytes {
		return nil, &Error{File: file, Err: fmt.Errorf("it is longer than %d bytes", maxBytes)}
	}
	return text, nil
}

// cause is an error of package os without the path, which Error adds.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Create writes a new keyring that only its owner may read. It never overwrites a file.
func Create(file string, keys []sealed.Key) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &Error{File: file, Err: fmt.Errorf("%w, and keys are never overwritten: use another file, or change these keys with fanfare key rotate", fs.ErrExist)}
	}
	if err != nil {
		return &Error{File: file, Err: cause(err)}
	}
	_, err = f.Write(Format(keys))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(file)
		return &Error{File: file, Err: cause(err)}
	}
	return nil
}

// Replace atomically replaces a keyring file: readers get the old or the new keys. It keeps the file's owner and a
// symbolic link to it, but not its text (Update does). It waits up to 10 s for other writers. Errors are an *Error.
func Replace(file string, keys []sealed.Key) error {
	return locked(context.Background(), file, func(target string, old fs.FileInfo) error {
		return replace(file, target, old, Format(keys))
	})
}

// replace replaces the locked keyring target, which file names, by text.
func replace(file, target string, old fs.FileInfo, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(target), ".keyring-*") // mode 0600
	if err != nil {
		return &Error{File: file, Err: cause(err)}
	}
	_, err = f.Write(text)
	err = errors.Join(err, keepOwner(f, old), f.Sync(), f.Close())
	if err == nil {
		err = rename(f.Name(), target)
	}
	if err != nil {
		os.Remove(f.Name())
		return &Error{File: file, Err: cause(err)}
	}
	return nil
}

// rename replaces a file by another. Windows refuses that while a bus is reading the old one, which takes a moment:
// there it is retried for two seconds.
func rename(from, to string) error {
	for waited := time.Duration(0); ; waited += lockPoll {
		err := os.Rename(from, to)
		if err == nil || runtime.GOOS != "windows" || waited >= 2*time.Second {
			return err
		}
		time.Sleep(lockPoll)
	}
}

// checkEvery is the interval at which a file is read.
const checkEvery = 250 * time.Millisecond

// File has the current keys of a file, which it reads again when it changes. A file that cannot be read, or has no
// keys, changes nothing, and is logged once.
type File struct {
	file string
	log  *slog.Logger
	keys atomic.Pointer[sealed.Keyset]
	read func(file string) ([]byte, error) // readText

	stop chan struct{}
	once sync.Once
	gone chan struct{} // closed when the goroutine has ended

	// Used by the goroutine only:
	text    []byte // the text used last, valid or not
	written []byte // a different text at the last read; nil: none
	bad     string // the error reported last; empty: none
}

var _ sealed.Provider = (*File)(nil)

// Open reads a keyring and follows its changes in a goroutine, until Close. Errors are an *Error.
func Open(file string, log *slog.Logger) (*File, error) {
	text, err := readText(file)
	if err != nil {
		return nil, err
	}
	list, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	set, err := sealed.NewKeyset(list)
	if err != nil {
		return nil, &Error{File: file, Err: err}
	}
	f := &File{file: file, log: log, read: readText, text: text, stop: make(chan struct{}), gone: make(chan struct{})}
	f.keys.Store(set)
	f.reportHoles(list)
	go f.follow()
	return f, nil
}

func (f *File) Keys() *sealed.Keyset { return f.keys.Load() }

// Close ends the goroutine. The keys remain. It is idempotent.
func (f *File) Close() error {
	f.once.Do(func() { close(f.stop) })
	<-f.gone
	return nil
}

// readLimit is how long a read may take before it is reported: the file may be on an unreachable host.
const readLimit = 10 * time.Second

// content is the result of reading the file.
type content struct {
	text []byte
	err  error
}

// follow is the goroutine. It ends with Close, even while another goroutine reads the file, which ends with the read.
func (f *File) follow() {
	defer close(f.gone)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	contents := make(chan content, 1)
	var since time.Time // when the current read began
	for {
		select {
		case <-f.stop:
			return
		case x := <-contents:
			since = time.Time{}
			f.check(x.text, x.err)
		case now := <-tick.C:
			switch {
			case since.IsZero():
				since = now
				go func() {
					text, err := f.read(f.file)
					contents <- content{text, err}
				}()
			case now.Sub(since) >= readLimit:
				f.reportBad(&Error{File: f.file, Err: fmt.Errorf("reading it takes longer than %v: its host may be unreachable", readLimit)})
			}
		}
	}
}

// reportBad reports an unusable file, once for each error.
func (f *File) reportBad(err error) {
	if f.bad != err.Error() {
		f.bad = err.Error()
		report.KeyringBad.Log(f.log, "err", err)
	}
}

// reportHoles warns of times without a valid key, in which nothing can be sent.
func (f *File) reportHoles(list []sealed.Key) {
	for _, h := range Holes(list, time.Now()) {
		report.KeyringHole.Log(f.log, "from", Time(h.From), "until", Time(h.Until))
	}
}

// check applies a change of the file.
func (f *File) check(text []byte, err error) {
	if err == nil {
		if bytes.Equal(text, f.text) {
			f.bad, f.written = "", nil
			return
		}
		// It may be incomplete: it is used if it is the same at the next read.
		if f.written == nil || !bytes.Equal(text, f.written) {
			f.written = append([]byte{}, text...)
			return
		}
		f.text, f.written = text, nil
	}
	var list []sealed.Key
	if err == nil {
		list, err = parse(f.file, text)
	}
	var set *sealed.Keyset
	if err == nil {
		set, err = sealed.NewKeyset(list)
	}
	if err != nil {
		f.reportBad(err)
		return
	}
	f.bad = ""
	f.keys.Store(set)
	sending := "none"
	if id, ok := set.Sending(time.Now()); ok {
		sending = id.String()
	}
	report.KeyringChanged.Log(f.log, "file", f.file, "keys", len(list), "sending", sending)
	f.reportHoles(list)
}
