// Package envelope encodes a message with headers: Fanfare's messages are bytes, and the adapters for Watermill and the
// Go CDK must send metadata with them. Both use this format, so that each reads the messages of the other.
//
// An envelope is
//
//	4 bytes        "FFE1"
//	varint         number of headers
//	for each one:
//	  varint       length of its name, then the name
//	  varint       length of its value, then the value
//	the rest       the body, to the end of the message
//
// A varint is that of package encoding/binary and Protocol Buffers: unsigned, seven bits a byte, the lowest first.
// Headers are sorted by name, compared byte by byte, each name once: equal envelopes have equal bytes.
// Names and values are any bytes, UTF-8 by convention; a name may be empty.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Magic is the first 4 bytes of an envelope.
const Magic = "FFE1"

// Limits of an envelope: they bound the memory that a foreign message can allocate.
const (
	MaxHeaders     = 1024    // headers
	MaxHeaderBytes = 1 << 20 // names and values together, in bytes
)

var (
	// ErrNoEnvelope: the message does not begin with Magic. Its publisher sent it without an envelope.
	ErrNoEnvelope = errors.New("the message has no envelope")
	// ErrMalformed: the message begins with Magic, but the rest is not a valid envelope.
	ErrMalformed = errors.New("malformed envelope")
	// ErrTooLarge: the headers exceed MaxHeaders or MaxHeaderBytes.
	ErrTooLarge = errors.New("too many headers")
)

// Append appends to dst an envelope with the headers and the body. If its error matches
// ErrTooLarge, it returns dst unchanged.
func Append(dst []byte, headers map[string]string, body []byte) ([]byte, error) {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
	}
	if len(headers) > MaxHeaders || size > MaxHeaderBytes {
		return dst, fmt.Errorf("%w: %d with %d bytes in total, limits are %d and %d bytes", ErrTooLarge, len(headers), size, MaxHeaders, MaxHeaderBytes)
	}
	dst = slices.Grow(dst, len(Magic)+binary.MaxVarintLen32*(2*len(headers)+1)+size+len(body))
	dst = append(dst, Magic...)
	dst = binary.AppendUvarint(dst, uint64(len(headers)))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		dst = appendText(dst, name)
		dst = appendText(dst, headers[name])
	}
	return append(dst, body...), nil
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// Parse parses an envelope. The headers are the caller's own, nil if there are none; body is a part
// of message. Its error matches ErrNoEnvelope, ErrMalformed or ErrTooLarge.
func Parse(message []byte) (headers map[string]string, body []byte, err error) {
	if len(message) < len(Magic) || string(message[:len(Magic)]) != Magic {
		return nil, nil, ErrNoEnvelope
	}
	rest := message[len(Magic):]
	count, rest, ok := cutVarint(rest)
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("%w: truncated in the number of headers", ErrMalformed)
	case count > MaxHeaders:
		return nil, nil, fmt.Errorf("%w: %d, limit %d", ErrTooLarge, count, MaxHeaders)
	case count == 0:
		return nil, rest, nil
	}
	headers = make(map[string]string, min(count, uint64(len(rest)/2)))
	var name, value, previous string
	size := 0
	for i := range count {
		if name, rest, ok = cutText(rest); ok {
			value, rest, ok = cutText(rest)
		}
		if !ok {
			return nil, nil, fmt.Errorf("%w: truncated in header %d of %d", ErrMalformed, i+1, count)
		}
		if i > 0 && name <= previous {
			return nil, nil, fmt.Errorf("%w: header %q after %q is out of order", ErrMalformed, name, previous)
		}
		if size += len(name) + len(value); size > MaxHeaderBytes {
			return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxHeaderBytes)
		}
		headers[name], previous = value, name
	}
	return headers, rest, nil
}

// cutVarint splits a varint off the front of b. It rejects encodings longer than necessary.
func cutVarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// cutText splits a length and that many bytes off the front of b.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	n, rest, ok := cutVarint(b)
	if !ok || n > uint64(len(rest)) {
		return "", nil, false
	}
	return string(rest[:n]), rest[n:], true
}
