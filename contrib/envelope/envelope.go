// Package envelope puts headers beside a message: Fanfare's messages are bytes, and the adapters for Watermill and the
// Go CDK have to carry metadata with them. Both use this one format, so that each reads what the other has published.
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
// Headers stand in the order of their names, compared byte by byte, each name once: what is equal has equal bytes.
// Names and values are any bytes, UTF-8 by convention; a name may be empty.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Magic is what an envelope begins with.
const Magic = "FFE1"

// Limits on an envelope, which keep what a stranger sends from taking more memory than it has sent bytes.
const (
	MaxHeaders     = 1024    // headers
	MaxHeaderBytes = 1 << 20 // names and values together, in bytes
)

var (
	// ErrNoEnvelope: the message does not begin with Magic. Its publisher sent it without an envelope.
	ErrNoEnvelope = errors.New("the message has no envelope")
	// ErrMalformed: the message begins with Magic, and what follows is none of an envelope.
	ErrMalformed = errors.New("malformed envelope")
	// ErrTooLarge: there are more headers than MaxHeaders, or MaxHeaderBytes.
	ErrTooLarge = errors.New("too many headers")
)

// Append appends to dst an envelope with the headers and the body. Its error matches
// ErrTooLarge; then it returns dst as it was.
func Append(dst []byte, headers map[string]string, body []byte) ([]byte, error) {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
	}
	if len(headers) > MaxHeaders || size > MaxHeaderBytes {
		return dst, fmt.Errorf("%w: %d of %d bytes together, and %d of %d bytes may be", ErrTooLarge, len(headers), size, MaxHeaders, MaxHeaderBytes)
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

// Parse reads an envelope. The headers are the caller's own, nil if there are none; body
// is a part of message. Its error matches ErrNoEnvelope, ErrMalformed or ErrTooLarge.
func Parse(message []byte) (headers map[string]string, body []byte, err error) {
	if len(message) < len(Magic) || string(message[:len(Magic)]) != Magic {
		return nil, nil, ErrNoEnvelope
	}
	rest := message[len(Magic):]
	count, rest, ok := cutVarint(rest)
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("%w: it ends within the number of headers", ErrMalformed)
	case count > MaxHeaders:
		return nil, nil, fmt.Errorf("%w: %d, and %d may be", ErrTooLarge, count, MaxHeaders)
	case count == 0:
		return nil, rest, nil
	}
	headers = make(map[string]string, min(count, uint64(len(rest)/2)))
	var name, value, before string
	size := 0
	for i := range count {
		if name, rest, ok = cutText(rest); ok {
			value, rest, ok = cutText(rest)
		}
		if !ok {
			return nil, nil, fmt.Errorf("%w: it ends within header %d of %d", ErrMalformed, i+1, count)
		}
		if i > 0 && name <= before {
			return nil, nil, fmt.Errorf("%w: header %q does not stand behind %q", ErrMalformed, name, before)
		}
		if size += len(name) + len(value); size > MaxHeaderBytes {
			return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxHeaderBytes)
		}
		headers[name], before = value, name
	}
	return headers, rest, nil
}

// cutVarint takes a varint off the front of b, if it is the shortest way to write its number.
func cutVarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// cutText takes a length and as many bytes off the front of b.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	n, rest, ok := cutVarint(b)
	if !ok || n > uint64(len(rest)) {
		return "", nil, false
	}
	return string(rest[:n]), rest[n:], true
}
