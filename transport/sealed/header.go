package sealed

import "encoding/binary"

// A sealed packet (docs/protocol §27.2):
//
//	 0       1       2       3       4       5       6       7
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| magic "Fs"    |version|   0   |            counter            |   0
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|            key id             |            time, s            |   8
//	+-------------------------------+-------------------------------+
//	|                             salt ...                          |  16
//	+-------------------------------+-------------------------------+
//	|         ... salt              |             mark              |  24
//	+-------------------------------+-------------------------------+
//	|                             train                             |  32
//	+---------------------------------------------------------------+
//	| the packet, encrypted ...                                     |  40
//	+---------------------------------------------------------------+
//	|                                                               |
//	|                   tag (16 bytes)                              |
//	+---------------------------------------------------------------+
const (
	headerLen = 40
	tagLen    = 16
	// Overhead is the length of a sealed packet minus that of its contents, in bytes.
	Overhead = headerLen + tagLen

	version = 1

	atCounter = 4
	atKey     = 8
	atTime    = 12
	atSender  = 16 // salt and mark, which identify a sender
	atMark    = 28
	atTrain   = 32

	saltLen   = 12
	markLen   = 4
	senderLen = saltLen + markLen
	trainLen  = 8
	nonceLen  = trainLen + 4
)

// The first two bytes of packets.
const (
	magic0, magic1 = 'F', 's' // sealed
	openMagic1     = 'f'      // not sealed: wire.Magic
	signedMagic1   = 'g'      // signed, and not sealed: wire.IsSigned
)

// header is the first bytes of a packet, of headerLen or more.
type header []byte

func (h header) counter() uint32 { return binary.LittleEndian.Uint32(h[atCounter:]) }
func (h header) key() uint32     { return binary.LittleEndian.Uint32(h[atKey:]) }
func (h header) time() uint32    { return binary.LittleEndian.Uint32(h[atTime:]) }
func (h header) sender() sender  { return sender(h[atSender : atSender+senderLen]) }

// sender identifies one sender to one group, or of replies: its salt and its mark.
type sender [senderLen]byte

// nonce is bytes 32 to 39 and then 4 to 7 of the header: different for each packet of a salt (docs/protocol §27.5).
func (h header) nonce(n *[nonceLen]byte) {
	copy(n[:trainLen], h[atTrain:])
	copy(n[trainLen:], h[atCounter:atCounter+4])
}

// Info is the readable part of a sealed packet's header, without a key.
type Info struct {
	Key     uint32
	Counter uint32
	Time    uint32 // seconds since 1970
	Salt    [saltLen]byte
	Mark    uint32
	Train   uint64
	Bytes   int // of the packet inside
}

// Parse reads the header of a sealed packet. It returns false if p is not a sealed packet of this version.
func Parse(p []byte) (Info, bool) {
	if len(p) <= Overhead || p[0] != magic0 || p[1] != magic1 || p[2] != version {
		return Info{}, false
	}
	h := header(p)
	return Info{
		Key: h.key(), Counter: h.counter(), Time: h.time(), Salt: [saltLen]byte(p[atSender:]),
		Mark:  binary.LittleEndian.Uint32(p[atMark:]),
		Train: binary.LittleEndian.Uint64(p[atTrain:]), Bytes: len(p) - Overhead,
	}, true
}
