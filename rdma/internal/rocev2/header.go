package rocev2

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/rdma"
)

// Port is the UDP destination port of RoCEv2 (IANA roce).
const Port = 4791

// Sizes in bytes.
const (
	bthBytes  = 12
	dethBytes = 8
	immBytes  = 4
	ICRCBytes = 4
	// MinBytes is the size of a datagram without payload: BTH, DETH, ICRC.
	MinBytes = bthBytes + dethBytes + ICRCBytes
	// MaxPayload is the largest MTU.
	MaxPayload = 4096
	// MaxBytes is the size of the largest datagram.
	MaxBytes = MinBytes + immBytes + MaxPayload
)

// Opcodes of UD (IBTA 9.2.1).
const (
	opSend    = 0x64
	opSendImm = 0x65
)

// Errors of Header.Parse, in the order of the checks.
var (
	ErrShort   = errors.New("rocev2: shorter than its headers")
	ErrLength  = errors.New("rocev2: not a multiple of 4 bytes, or longer than the largest datagram")
	ErrOpcode  = errors.New("rocev2: the opcode is not one of UD")
	ErrVersion = errors.New("rocev2: unknown transport version")
	ErrQPN     = errors.New("rocev2: the destination is queue pair 0")
	ErrPad     = errors.New("rocev2: more pad than payload")
)

// Header has the fields of BTH, DETH and immediate data.
type Header struct {
	HasImm    bool
	Solicited bool
	MigReq    bool // the M bit
	FECN      bool // not covered by the ICRC
	BECN      bool // not covered by the ICRC
	PKey      rdma.PKey
	DestQPN   rdma.QPN
	PSN       uint32 // 24 bits
	QKey      rdma.QKey
	SrcQPN    rdma.QPN
	Imm       [4]byte
}

// Bytes returns the length of BTH, DETH and immediate data.
func (h *Header) Bytes() int {
	if h.HasImm {
		return bthBytes + dethBytes + immBytes
	}
	return bthBytes + dethBytes
}

// Size returns the length of a datagram from the BTH to the ICRC, for payload bytes.
func (h *Header) Size(payload int) int { return h.Bytes() + payload + pad(payload) + ICRCBytes }

func pad(payload int) int { return -payload & 3 }

// Put writes the header and the pad of a datagram with payload bytes to b, which must have its Size. It returns the
// part of b for the payload. Call SetICRC after filling that.
func (h *Header) Put(b []byte, payload int) []byte {
	n := h.Bytes()
	size := n + payload + pad(payload) + ICRCBytes
	_ = b[size-1]
	b[0], b[1] = opSend, byte(pad(payload))<<4
	if h.HasImm {
		b[0] = opSendImm
		copy(b[bthBytes+dethBytes:], h.Imm[:])
	}
	if h.Solicited {
		b[1] |= 0x80
	}
	if h.MigReq {
		b[1] |= 0x40
	}
	binary.BigEndian.PutUint16(b[2:], uint16(h.PKey))
	binary.BigEndian.PutUint32(b[4:], uint32(h.DestQPN)&0xffffff)
	binary.BigEndian.PutUint32(b[8:], h.PSN&0xffffff)
	binary.BigEndian.PutUint32(b[12:], uint32(h.QKey))
	binary.BigEndian.PutUint32(b[16:], uint32(h.SrcQPN)&0xffffff)
	if h.FECN {
		b[4] |= 0x80
	}
	if h.BECN {
		b[4] |= 0x40
	}
	clear(b[n+payload : size-ICRCBytes])
	return b[n : n+payload : n+payload]
}

// Parse parses the header of a datagram and returns its payload, which is part of b. It does not check the ICRC: the
// caller must do so with Sum and Want before it uses the result. After an error, h is undefined.
func (h *Header) Parse(b []byte) ([]byte, error) {
	switch {
	case len(b) < MinBytes:
		return nil, ErrShort
	case len(b)&3 != 0 || len(b) > MaxBytes:
		return nil, ErrLength
	case b[0]&^1 != opSend:
		return nil, ErrOpcode
	case b[1]&0x0f != 0:
		return nil, ErrVersion
	}
	h.HasImm = b[0] == opSendImm
	h.Solicited, h.MigReq = b[1]&0x80 != 0, b[1]&0x40 != 0
	h.FECN, h.BECN = b[4]&0x80 != 0, b[4]&0x40 != 0
	h.PKey = rdma.PKey(binary.BigEndian.Uint16(b[2:]))
	h.DestQPN = rdma.QPN(binary.BigEndian.Uint32(b[4:]) & 0xffffff)
	h.PSN = binary.BigEndian.Uint32(b[8:]) & 0xffffff
	h.QKey = rdma.QKey(binary.BigEndian.Uint32(b[12:]))
	h.SrcQPN = rdma.QPN(binary.BigEndian.Uint32(b[16:]) & 0xffffff)
	h.Imm = [4]byte{}
	if h.DestQPN == 0 {
		return nil, ErrQPN
	}
	n := h.Bytes()
	if h.HasImm {
		if len(b) < n+ICRCBytes {
			return nil, ErrShort
		}
		h.Imm = [4]byte(b[bthBytes+dethBytes:])
	}
	end := len(b) - ICRCBytes
	payload := end - n - int(b[1]>>4&3)
	switch {
	case payload < 0:
		return nil, ErrPad
	case payload > MaxPayload:
		return nil, ErrLength
	}
	return b[n : n+payload : n+payload], nil
}

// Follows reports whether next begins with the headers of the datagram that the queue pair sent after b, to find the
// ends of datagrams in a train received as one buffer. Both must be at least MinBytes long.
func Follows(b, next []byte) bool {
	_, _ = b[MinBytes-1], next[MinBytes-1]
	psn := binary.BigEndian.Uint32(b[8:])
	return next[0]&^1 == opSend && next[1]&0x0f == 0 &&
		binary.BigEndian.Uint32(next[8:]) == psn&0xff000000|(psn+1)&0xffffff &&
		binary.BigEndian.Uint32(next[16:]) == binary.BigEndian.Uint32(b[16:]) && // source
		binary.BigEndian.Uint16(next[2:]) == binary.BigEndian.Uint16(b[2:]) // partition
}
