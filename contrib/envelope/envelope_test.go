package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// The encoding, byte by byte.
func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers map[string]string
		body    string
		want    string
	}{
		{"empty", nil, "", "FFE1\x00"},
		{"only a body", map[string]string{}, "body", "FFE1\x00body"},
		{"one header", map[string]string{"a": "bc"}, "body", "FFE1\x01\x01a\x02bcbody"},
		{"sorted headers", map[string]string{"b": "2", "a": "1", "": "0", "ab": ""}, "x", "FFE1\x04\x00\x010\x01a\x011\x02ab\x00\x01b\x012x"},
		{"a long value", map[string]string{"k": strings.Repeat("v", 300)}, "", "FFE1\x01\x01k\xac\x02" + strings.Repeat("v", 300)},
		{"body like an envelope", nil, "FFE1\x00", "FFE1\x00FFE1\x00"},
	} {
		got, err := Append([]byte("before"), c.headers, []byte(c.body))
		if err != nil || string(got) != "before"+c.want {
			t.Errorf("%s: message %q, error %v, want %q", c.name, got, err, "before"+c.want)
		}
		headers, body, err := Parse([]byte(c.want))
		if err != nil || string(body) != c.body || !maps.Equal(headers, c.headers) {
			t.Errorf("%s: parsed %v and %q, error %v, want %v and %q", c.name, headers, body, err, c.headers, c.body)
		}
	}
}

// Parse returns the matching error for invalid input, and an error for every truncation within the headers.
func TestInvalid(t *testing.T) {
	for _, c := range []struct {
		message string
		want    error
	}{
		{"", ErrNoEnvelope},
		{"FFE", ErrNoEnvelope},
		{"plain text", ErrNoEnvelope},
		{"FFE2\x00", ErrNoEnvelope},
		{"FFE1", ErrMalformed},
		{"FFE1\x80", ErrMalformed},
		{"FFE1\x80\x00", ErrMalformed}, // 0, in two bytes
		{"FFE1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", ErrMalformed},
		{"FFE1\x81\x08", ErrTooLarge}, // 1025 headers
		{"FFE1\x80\x08", ErrMalformed},
		{"FFE1\x01\x01a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ErrMalformed}, // longer than memory
		{"FFE1\x02\x01b\x00\x01a\x00", ErrMalformed},                            // not sorted
		{"FFE1\x02\x01a\x00\x01a\x00", ErrMalformed},                            // duplicate
	} {
		if headers, body, err := Parse([]byte(c.message)); !errors.Is(err, c.want) || headers != nil || body != nil {
			t.Errorf("message %q: parsed %v and %q, error %v, want %v", c.message, headers, body, err, c.want)
		}
	}
	message, err := Append(nil, map[string]string{"name": "value", "other": ""}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range message {
		if _, _, err := Parse(message[:n]); err == nil {
			t.Errorf("Parse accepts the first %d bytes of %q", n, message)
		}
	}
}

// Append and Parse enforce the same limits.
func TestLimits(t *testing.T) {
	many := make(map[string]string)
	for i := range MaxHeaders {
		many[fmt.Sprint(i)] = ""
	}
	large := map[string]string{"k": strings.Repeat("v", MaxHeaderBytes-1)}
	for name, headers := range map[string]map[string]string{"many": many, "large": large} {
		message, err := Append(nil, headers, []byte("body"))
		if err != nil {
			t.Fatalf("%s headers: Append failed: %v", name, err)
		}
		if got, body, err := Parse(message); err != nil || !maps.Equal(got, headers) || string(body) != "body" {
			t.Errorf(`%s headers: parsed %d headers and %q, error %v, want %d and "body"`, name, len(got), body, err, len(headers))
		}
		headers["one more"] = "x"
		if message, err := Append([]byte("x"), headers, nil); !errors.Is(err, ErrTooLarge) || string(message) != "x" {
			t.Errorf("%s headers and one more: %d bytes, error %v, want 1 and %v", name, len(message), err, ErrTooLarge)
		}
	}
	// Two values of half the limit each, plus the names: too large only in total.
	half := strings.Repeat("v", MaxHeaderBytes/2)
	message := []byte("FFE1\x02\x01a\x80\x80\x20" + half + "\x01b\x80\x80\x20" + half)
	if _, _, err := Parse(message); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large in total: %v", err)
	}
}

// Append of a parsed envelope yields the same bytes, and headers of failed parses are nil.
func FuzzParse(f *testing.F) {
	f.Add([]byte("FFE1\x00body"))
	f.Add([]byte("FFE1\x02\x01a\x011\x01b\x012body"))
	f.Add([]byte("FFE1\x80\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		headers, body, err := Parse(message)
		if err != nil {
			if headers != nil || body != nil {
				t.Errorf("Parse returns %v and %q with the error %v, want nothing", headers, body, err)
			}
			return
		}
		again, err := Append(nil, headers, body)
		if err != nil || !bytes.Equal(again, message) {
			t.Errorf("message %q was encoded again as %q, error %v", message, again, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	headers := map[string]string{"a": "1", "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736"}
	body := make([]byte, 256)
	b.ReportAllocs()
	var dst []byte
	for range b.N {
		dst, _ = Append(dst[:0], headers, body)
	}
}
