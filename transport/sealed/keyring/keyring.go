// Package keyring reads and writes files of keys, and follows their changes.
//
// A keyring is a text file. Each line is a key: its id, its secret, the time from which it is used, and the time from
// which it is refused.
//
//	# id         secret, 64 hexadecimal digits or base64   not before            not after
//	0x1f3a9c07   8f0d…                                     2026-11-23T12:00:00Z  2027-02-21T12:00:00Z
//
// "-" as a time means no bound, and may be omitted at the end of the line. # begins a comment.
package keyring

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// Error describes an invalid keyring, with the position. It never contains a secret.
type Error struct {
	File string
	Line int // from 1; 0: the file as a whole
	Err  error
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("keyring %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("keyring %s, line %d: %v", e.File, e.Line, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// maxBytes bounds a file: 64 keys with comments are much shorter.
const maxBytes = 1 << 18

// Parse reads the text of a keyring. Errors are an *Error, without a file.
func Parse(text []byte) ([]sealed.Key, error) {
	var keys []sealed.Key
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		k, err := parseKey(fields)
		if err != nil {
			return nil, &Error{Line: n, Err: err}
		}
		keys = append(keys, k)
	}
	if err := lines.Err(); err != nil {
		return nil, &Error{Err: err}
	}
	if len(keys) == 0 {
		return nil, &Error{Err: errors.New("it has no key: make one with fanfare key new")}
	}
	if _, err := sealed.NewKeyset(keys); err != nil {
		return nil, &Error{Err: err}
	}
	return keys, nil
}

func parseKey(fields []string) (k sealed.Key, err error) {
	if len(fields) < 2 || len(fields) > 4 {
		return k, fmt.Errorf("%d words: a line has an id, a secret, not before, not after", len(fields))
	}
	id, err := strconv.ParseUint(fields[0], 0, 32)
	if err != nil || id == 0 {
		return k, errors.New("the id must be a number from 1 to 0xffffffff, such as 0x1f3a9c07")
	}
	k.ID = sealed.KeyID(id)
	secret, err := hex.DecodeString(fields[1])
	if err != nil {
		if secret, err = base64.StdEncoding.DecodeString(fields[1]); err != nil {
			return k, fmt.Errorf("the secret of key %v is neither hexadecimal nor base64", k.ID)
		}
	}
	if len(secret) != len(k.Secret) {
		return k, fmt.Errorf("the secret of key %v has %d bytes: it must have %d", k.ID, len(secret), len(k.Secret))
	}
	copy(k.Secret[:], secret)
	for i, at := range []*time.Time{&k.NotBefore, &k.NotAfter} {
		if len(fields) <= 2+i || fields[2+i] == "-" {
			continue
		}
		if *at, err = time.Parse(time.RFC3339, fields[2+i]); err != nil {
			return k, fmt.Errorf("key %v: word %d is neither a time such as 2026-11-23T12:00:00Z nor -", k.ID, 3+i) // the word is not printed: it may be a secret
		}
	}
	return k, nil
}

// Format is the text of a keyring, including the secrets.
func Format(keys []sealed.Key) []byte {
	var b bytes.Buffer
	b.WriteString("# Keys of sealed groups: any holder of this file can read and send. Keep it secret.\n")
	b.WriteString("# id, secret, not before, not after\n")
	for _, k := range sorted(keys) {
		b.WriteString(formatKey(k) + "\n")
	}
	return b.Bytes()
}

// formatKey is the line of a key, without a newline.
func formatKey(k sealed.Key) string {
	return fmt.Sprintf("%v %x %s %s", k.ID, k.Secret, Time(k.NotBefore), Time(k.NotAfter))
}

// Time is the text of a bound in a keyring: RFC 3339 in UTC, or - for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// sorted returns the keys in the order of NotBefore.
func sorted(keys []sealed.Key) []sealed.Key {
	return slices.SortedStableFunc(slices.Values(keys), func(a, b sealed.Key) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.ID, b.ID))
	})
}

// NewKey makes a key with a random secret, and a random id that none of others has.
func NewKey(others []sealed.Key, notBefore, notAfter time.Time) (sealed.Key, error) {
	k := sealed.Key{NotBefore: seconds(notBefore), NotAfter: seconds(notAfter)}
	for used := true; used; {
		var b [4]byte
		if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
			return k, err
		}
		k.ID = sealed.KeyID(binary.LittleEndian.Uint32(b[:]))
		used = k.ID == 0 || slices.ContainsFunc(others, func(o sealed.Key) bool { return o.ID == k.ID })
	}
	_, err := io.ReadFull(rand.Reader, k.Secret[:])
	return k, err
}

func seconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Second)
}

// Rotate returns keys with a new one, which begins at notBefore and ends at notAfter (zero: no end). Earlier keys end
// overlap after notBefore. Keys that have expired at now are removed.
func Rotate(keys []sealed.Key, now, notBefore, notAfter time.Time, overlap time.Duration) ([]sealed.Key,
	sealed.Key, error) {
	fresh, err := NewKey(keys, notBefore, notAfter)
	if err != nil {
		return nil, fresh, err
	}
	end := seconds(notBefore.Add(overlap))
	var list []sealed.Key
	for _, k := range keys {
		if !k.NotAfter.IsZero() && !now.Before(k.NotAfter) {
			continue
		}
		if !k.NotBefore.After(fresh.NotBefore) && (k.NotAfter.IsZero() || k.NotAfter.After(end)) {
			if k.NotAfter = end; !k.NotAfter.After(k.NotBefore) {
				continue // it began in the same second
			}
		}
		list = append(list, k)
	}
	return append(list, fresh), fresh, nil
}

// Hole is a time in which no key is valid, so that nothing can be sent: from From until before Until.
type Hole struct{ From, Until time.Time }

// Holes returns the holes between now and when the last of the keys begins.
func Holes(keys []sealed.Key, now time.Time) (holes []Hole) {
	reach := now // until then some key is valid
	for _, k := range sorted(keys) {
		switch {
		case !k.NotAfter.IsZero() && !(k.NotAfter.After(k.NotBefore) && k.NotAfter.After(reach)):
			continue
		case k.NotBefore.After(reach):
			holes = append(holes, Hole{reach, k.NotBefore})
		}
		if k.NotAfter.IsZero() {
			return holes
		}
		reach = k.NotAfter
	}
	return holes
}
