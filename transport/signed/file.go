package signed

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
)

// checkEvery is the interval at which a file is read.
const checkEvery = 250 * time.Millisecond

// File has the current trust of a file, which it reads again when it changes. A file that cannot be read, or trusts no
// key, changes nothing, and is logged once.
type File struct {
	file  string
	log   *slog.Logger
	trust atomic.Pointer[Trust]
	read  func(file string) (text []byte, t *Trust, err error) // readTrust

	stop chan struct{}
	once sync.Once
	gone chan struct{} // closed when the goroutine has ended

	// Used by the goroutine only:
	text    []byte // the text used last, valid or not
	written []byte // a different text at the last read; nil: none
	bad     string // the error reported last; empty: none
}

var _ Provider = (*File)(nil)

// readTrust reads a trust file, which other users may read but not change. Errors are a *FileError.
func readTrust(file string) (text []byte, t *Trust, err error) {
	text, err = readFile(file, &ofTrust)
	if err == nil {
		t, err = ParseTrust(text)
	}
	var e *FileError
	if errors.As(err, &e) {
		e.File = file
	}
	return text, t, err
}

// OpenTrust reads a trust file and follows its changes in a goroutine, until Close. Errors are a *FileError.
func OpenTrust(file string, log *slog.Logger) (*File, error) {
	text, t, err := readTrust(file)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, log: log, read: readTrust, text: text, stop: make(chan struct{}), gone: make(chan struct{})}
	f.trust.Store(t)
	go f.follow()
	return f, nil
}

// Trust implements Provider.
func (f *File) Trust() *Trust { return f.trust.Load() }

// Close ends the goroutine. The trust remains. It is idempotent.
func (f *File) Close() error {
	f.once.Do(func() { close(f.stop) })
	<-f.gone
	return nil
}

// readLimit is how long a read may take before it is reported: the file may be on an unreachable host.
const readLimit = 10 * time.Second

// follow is the goroutine. It ends with Close, even while another goroutine reads the file, which ends with the read.
func (f *File) follow() {
	defer close(f.gone)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	checks := make(chan func(), 1)
	var since time.Time // when the current read began
	for {
		select {
		case <-f.stop:
			return
		case check := <-checks:
			since = time.Time{}
			check()
		case now := <-tick.C:
			switch {
			case since.IsZero():
				since = now
				go func() {
					text, t, err := f.read(f.file)
					checks <- func() { f.check(text, t, err) }
				}()
			case now.Sub(since) >= readLimit:
				f.reportBad(&FileError{File: f.file, Err: fmt.Errorf("reading it takes longer than %v: its host may be unreachable", readLimit)})
			}
		}
	}
}

// reportBad reports an unusable file, once for each error.
func (f *File) reportBad(err error) {
	if f.bad != err.Error() {
		f.bad = err.Error()
		report.TrustBad.Log(f.log, "err", err)
	}
}

// check applies a change of the file once two reads are equal, because the first may be incomplete.
func (f *File) check(text []byte, t *Trust, err error) {
	switch {
	case text == nil: // the file could not be read
	case bytes.Equal(text, f.text):
		f.bad, f.written = "", nil
		return
	case f.written == nil || !bytes.Equal(text, f.written):
		f.written = text
		return
	default:
		f.text, f.written = text, nil
	}
	if err != nil {
		f.reportBad(err)
		return
	}
	f.bad = ""
	f.trust.Store(t)
	report.TrustChanged.Log(f.log, "file", f.file, "keys", t.Keys())
}
