package report

import (
	"bytes"
	"fmt"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/internal/outfile"
)

// File is where a report will be written. Until there is one, what was there stays.
type File struct {
	path string
	out  *outfile.File
}

// Create makes sure that a report can be written to path: that should not be learnt of
// after minutes of measuring. Close it.
func Create(path string) (*File, error) {
	out, err := outfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	return &File{path, out}, nil
}

// Write writes the report of result, once.
func (f *File) Write(result *bench.Result) error {
	var page bytes.Buffer
	err := Write(&page, result)
	if err == nil {
		err = f.out.Put(page.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write report %s: %w", f.path, err)
	}
	return nil
}

// Close gives up a report that was not written.
func (f *File) Close() error { return f.out.Close() }
