// Package urlopt parses the options of transports' URLs: the keys of the query, and the types of values that several
// transports use. Errors are one sentence with a remedy.
package urlopt

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Set has the options of a configuration C by key: each parses its value. Errors continue the text "option key=value",
// such as "must be auto or off".
type Set[C any] map[string]func(c *C, val string) error

// Query parses the query of a URL.
func Query(u *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%s: the options of %q cannot be read: %w", u.Scheme, Text(u), err)
	}
	return query, nil
}

// Text is a URL as entered, without its password: unlike URL.String it keeps the slashes if nothing follows them.
func Text(u *url.URL) string {
	s := u.Redacted()
	if u.Opaque == "" && u.Host == "" && u.User == nil && u.Path == "" {
		s = strings.Replace(s, ":", "://", 1)
	}
	return s
}

// UnknownError reports an option of a URL that its scheme does not have.
type UnknownError struct {
	Scheme, Option string
	Known          []string // options
}

func (e *UnknownError) Error() string {
	known := "none"
	if len(e.Known) > 0 {
		known = strings.Join(slices.Sorted(slices.Values(e.Known)), ", ")
	}
	return fmt.Sprintf("%s: unknown option %q; known are %s", e.Scheme, e.Option, known)
}

// AlsoKnown adds an option that the caller removes from the URL before parsing it.
func (e *UnknownError) AlsoKnown(option string) { e.Known = append(e.Known, option) }

// Read sets c from the options of a query, in the order of their names. scheme is the prefix of errors.
func (s Set[C]) Read(c *C, scheme string, query url.Values) error {
	for _, key := range slices.Sorted(maps.Keys(query)) {
		vals := query[key]
		set, ok := s[key]
		if !ok {
			return &UnknownError{Scheme: scheme, Option: key, Known: slices.Collect(maps.Keys(s))}
		}
		if len(vals) > 1 {
			return fmt.Errorf("%s: option %s is given %d times; leave one", scheme, key, len(vals))
		}
		if err := set(c, vals[0]); err != nil {
			return fmt.Errorf("%s: option %s=%s %w", scheme, key, vals[0], err)
		}
	}
	return nil
}

// Number parses a whole number from low to high.
func Number(dst *int, val string, low, high int) error {
	n, err := strconv.Atoi(val)
	if err != nil || n < low || n > high {
		return fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	*dst = n
	return nil
}

// AtLeast parses a whole number of at least low; the caller checks its upper limit.
func AtLeast(dst *int, val string, low int) error {
	n, err := strconv.Atoi(val)
	if err != nil || n < low {
		return fmt.Errorf("must be a whole number from %d", low)
	}
	*dst = n
	return nil
}

// MaxBytes is the maximum that Bytes accepts.
const MaxBytes = 1 << 30

// Bytes parses a number of bytes from 1 to MaxBytes, with an optional suffix K, M or G.
func Bytes(dst *int, val string) error {
	digits, shift := val, 0
	for i, unit := range []string{"K", "M", "G"} {
		if d, ok := strings.CutSuffix(strings.ToUpper(val), unit); ok {
			digits, shift = d, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > MaxBytes>>shift {
		return errors.New("must be from 1 to 1G bytes, such as 8388608 or 8M")
	}
	*dst = n << shift
	return nil
}

// Offload parses auto or off; off is set to true for off.
func Offload(off *bool, val string) error {
	switch val {
	case "auto":
		*off = false
	case "off":
		*off = true
	default:
		return errors.New("must be auto or off")
	}
	return nil
}
