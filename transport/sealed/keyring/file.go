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

// Read reads a keyring. It refuses a file that others than its owner may read or change, where
// the system knows such rights. Errors are an *Error.
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
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe open would wait for a writer
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
		return nil, &Error{File: file, Err: errors.New("it is no regular file, which can be read again when it changes")}
	case mode.Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return nil, &Error{File: file, Err: fmt.Errorf("others than its owner may use it (mode %04o): run chmod 600 %s, and make new keys if another user may have read it", mode.Perm(), file)}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1)) // it may be growing
	if err != nil {
		return nil, &Error{File: file, Err: cause(err)}
	}
	if len(text) > maxBytes {
		return nil, &Error{File: file, Err: fmt.Errorf("it is longer than %d bytes", maxBytes)}
	}
	return text, nil
}

// cause is an error of package os without the path, which an Error says.
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
		return &Error{File: file, Err: fmt.Errorf("%w, and keys are never overwritten: name another file, or change these keys with fanfare key rotate", fs.ErrExist)}
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
// symbolic link to it, but none of its text (Update does). It waits up to 10 s for other writers. Errors are an *Error.
func Replace(file string, keys []sealed.Key) error {
	return locked(context.Background(), file, func(target string, old fs.FileInfo) error {
		return replace(file, target, old, Format(keys))
	})
}

// replace writes a text in the place of the keyring target, which file names, and which is locked.
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

// rename puts a file in the place of another. Windows refuses that while a bus is reading the old one, which takes
// a moment: there it is tried for two seconds.
func rename(from, to string) error {
	for waited := time.Duration(0); ; waited += lockPoll {
		err := os.Rename(from, to)
		if err == nil || runtime.GOOS != "windows" || waited >= 2*time.Second {
			return err
		}
		time.Sleep(lockPoll)
	}
}

// checkEvery is how often a file is looked at.
const checkEvery = 250 * time.Millisecond

// File is the keys of a file as they are now: it is read again when it changes. What cannot be
// read, or holds no keys, changes nothing, and is logged once.
type File struct {
	file string
	log  *slog.Logger
	keys atomic.Pointer[sealed.Keyset]
	read func(file string) ([]byte, error) // readText

	stop chan struct{}
	once sync.Once
	gone chan struct{} // closed when the goroutine has ended

	// Of the goroutine:
	text    []byte // that was taken last, well or not
	written []byte // other text, as it was at the last look; nil: there is none
	bad     string // why it could not be read, as was reported
}

var _ sealed.Provider = (*File)(nil)

// Open reads a keyring and follows its changes, until Close, by a goroutine of its own.
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

// Keys implements sealed.Provider.
func (f *File) Keys() *sealed.Keyset { return f.keys.Load() }

// Close ends the goroutine. The keys stay as they are. It is idempotent.
func (f *File) Close() error {
	f.once.Do(func() { close(f.stop) })
	<-f.gone
	return nil
}

// readLimit is how long a read may take before it is reported: the file may be on a remote host that is gone.
const readLimit = 10 * time.Second

// content is what a read of the file returned.
type content struct {
	text []byte
	err  error
}

// follow is the goroutine. It ends with Close, also while the file is being read, by a goroutine
// that ends when that does.
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
				f.reportBad(&Error{File: f.file, Err: fmt.Errorf("reading it takes longer than %v: the host that it is on may be gone", readLimit)})
			}
		}
	}
}

// reportBad reports once that the file is not usable.
func (f *File) reportBad(err error) {
	if f.bad != err.Error() {
		f.bad = err.Error()
		report.KeyringBad.Log(f.log, "err", err)
	}
}

// reportHoles warns of times in which nothing can be sent.
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
