package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// Update calls change with the keys in a file and atomically writes the result: readers get the old or the new keys. It
// returns the new keys. The file keeps its owner, a symbolic link to it, and its comments where possible: lines of
// removed keys are removed, in lines of keys with another NotAfter only that time is changed, and new keys are
// appended.
//
// Concurrent updates of a file run one after the other, including Replace and other processes. Waiting
// for more than 10 s, or until ctx ends, is an error and changes nothing. Errors are an *Error that
// wraps ErrBusy after such a wait, the context's error, or the error of change.
func Update(ctx context.Context, file string, change func(keys []sealed.Key) ([]sealed.Key, error)) ([]sealed.Key,
	error) {
	if _, err := Read(file); err != nil { // without a valid keyring there is nothing to lock
		return nil, err
	}
	var keys []sealed.Key
	err := locked(ctx, file, func(target string, old fs.FileInfo) error {
		text, err := readText(target)
		if e := (*Error)(nil); errors.As(err, &e) {
			e.File = file
		}
		if err != nil {
			return err
		}
		if keys, err = parse(file, text); err != nil {
			return err
		}
		if keys, err = change(keys); err != nil {
			return err
		}
		text = amend(text, keys)
		if len(text) > maxBytes {
			return &Error{File: file, Err: fmt.Errorf("it would be longer than %d bytes: remove comments", maxBytes)}
		}
		if _, err := parse(file, text); err != nil { // otherwise no reader could parse it
			return err
		}
		return replace(file, target, old, text)
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// amend is the text of a keyring after a change of its keys.
func amend(text []byte, keys []sealed.Key) []byte {
	var b bytes.Buffer
	end := "\n"
	here := make([]bool, len(keys)) // keys that have a line
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\r\n") {
			end = "\r\n"
		}
		body, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(body)
		k, err := parseKey(fields)
		if len(fields) == 0 || err != nil {
			b.WriteString(line)
			continue
		}
		i := slices.IndexFunc(keys, func(o sealed.Key) bool {
			return o.ID == k.ID && o.Secret == k.Secret && o.NotBefore.Equal(k.NotBefore)
		})
		if i < 0 {
			continue
		}
		here[i] = true
		if !keys[i].NotAfter.Equal(k.NotAfter) {
			line = withEnd(line, body, fields, Time(keys[i].NotAfter))
		}
		b.WriteString(line)
	}
	if n := b.Len(); n > 0 && b.Bytes()[n-1] != '\n' {
		b.WriteString(end)
	}
	for i, k := range keys {
		if !here[i] {
			b.WriteString(formatKey(k) + end)
		}
	}
	return b.Bytes()
}

// withEnd is a key's line with another NotAfter. body is the line without its comment, fields are its words.
func withEnd(line, body string, fields []string, at string) string {
	from := len(strings.TrimRightFunc(body, unicode.IsSpace))
	rest := line[from:]
	switch len(fields) {
	case 2:
		at = " - " + at
	case 3:
		at = " " + at
	default:
		from -= len(fields[3])
	}
	return line[:from] + at + rest
}
