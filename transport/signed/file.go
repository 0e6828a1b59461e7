package signed

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
)

// checkEvery is how often a file is looked at.
const checkEvery = 250 * time.Millisecond

// File is the trust of a file as it is now: it is read again when it changes. What cannot be read,
// or trusts no key, changes nothing, and is logged once.
type File struct {
	file  string
	log   *slog.Logger
	trust atomic.Pointer[Trust]

	stop chan struct{}
	once sync.Once
	gone chan struct{} // closed when the goroutine has ended

	// Of the goroutine:
	text    []byte // that was taken last, well or not
	written []byte // other text, as it was at the last look; nil: there is none
	bad     string // why it could not be read, as was told
}

var _ Provider = (*File)(nil)

// ReadTrust reads a file of trust, which others than its owner may read but not change. Errors are a
// *FileError.
func ReadTrust(file string) (*Trust, error) {
	_, t, err := readTrust(file)
	return t, err
}

func readTrust(file string) (text []byte, t *Trust, err error) {
	text, err = readFile(file, 0o022, "others than its owner may change it: run chmod 644")
	if err == nil {
		t, err = ParseTrust(text)
	}
	var e *FileError
	if errors.As(err, &e) {
		e.File = file
	}
	return text, t, err
}

// OpenTrust reads a file of trust and follows its changes, until Close, by a goroutine of its own.
func OpenTrust(file string, log *slog.Logger) (*File, error) {
	text, t, err := readTrust(file)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, log: log, text: text, stop: make(chan struct{}), gone: make(chan struct{})}
	f.trust.Store(t)
	go f.follow()
	return f, nil
}

// Trust implements Provider.
func (f *File) Trust() *Trust { return f.trust.Load() }

// Close ends the goroutine. The trust stays as it is. It is idempotent.
func (f *File) Close() error {
	f.once.Do(func() { close(f.stop) })
	<-f.gone
	return nil
}

// follow is the goroutine. It ends with Close.
func (f *File) follow() {
	defer close(f.gone)
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
			f.check()
		}
	}
}

// check reads the file, which is small, and takes what is new in it once it stays as it is from one
// look to the next: it may be being written.
func (f *File) check() {
	text, t, err := readTrust(f.file)
	switch {
	case text == nil: // it could not be read at all
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
		if f.bad != err.Error() {
			f.bad = err.Error()
			logline.TrustBad.Log(f.log, "err", err)
		}
		return
	}
	f.bad = ""
	f.trust.Store(t)
	logline.TrustChanged.Log(f.log, "file", f.file, "keys", t.Keys())
}
