package tap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// pcapngReader reads the format pcapng. A file has sections, and a section has interfaces, each
// with its own encoding. Blocks without frames are skipped whatever their length, so that memory
// stays bounded. https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html
type pcapngReader struct {
	r          *bufio.Reader
	order      binary.ByteOrder // of the section
	known      bool             // the section's version is supported
	interfaces []captureInterface
	buf        []byte // of the block
}

type captureInterface struct {
	link      linkType
	snap      uint32 // maximum bytes recorded of a frame; 0: no maximum
	perSecond uint64 // timestamp units per second; 0: too many to represent
	offset    int64  // of timestamps, in seconds
}

const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 2
	blockSimple    = 3
	blockEnhanced  = 6

	optionEnd        = 0
	optionResolution = 9
	optionOffset     = 14

	byteOrderMagic = 0x1a2b3c4d
	blockAround    = 12 // type and length before, length after

	maxBlock      = maxFrame + 1<<16
	maxInterfaces = 4096 // of a section
)

func newPcapng(r *bufio.Reader) (*pcapngReader, error) {
	p := &pcapngReader{r: r, order: binary.LittleEndian, buf: make([]byte, maxBlock)}
	_, body, err := p.block() // a section block, by its type
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCutHeader
	}
	if err == nil {
		err = p.section(body)
	}
	if err == nil && !p.known {
		err = errVersion
	}
	return p, err
}

func (p *pcapngReader) next() (frame, error) {
	for {
		kind, body, err := p.block()
		if err != nil {
			return frame{}, err
		}
		switch {
		case kind == blockSection:
			if err = p.section(body); err == nil && !p.known {
				return frame{left: errVersion}, nil
			}
		case !p.known:
		case kind == blockInterface:
			err = p.describe(body)
		default:
			f, ok, err := p.frame(kind, body)
			if ok || err != nil {
				return f, err
			}
		}
		if err != nil {
			return frame{}, err
		}
	}
}

func (p *pcapngReader) block() (kind uint32, body []byte, err error) {
	begin, err := p.r.Peek(blockAround)
	if len(begin) == 0 && err != nil {
		return 0, nil, err // io.EOF between blocks
	}
	if err != nil {
		return 0, nil, cutShort(err)
	}
	if kind = p.order.Uint32(begin); kind == blockSection { // the type reads the same in both byte orders
		if p.order = binary.ByteOrder(binary.LittleEndian); p.order.Uint32(begin[8:]) != byteOrderMagic {
			p.order = binary.BigEndian
		}
		if p.order.Uint32(begin[8:]) != byteOrderMagic {
			return 0, nil, errors.New("a section without a valid byte order")
		}
	}
	length := p.order.Uint32(begin[4:])
	if length < blockAround || length&3 != 0 {
		return 0, nil, fmt.Errorf("a block of %d bytes", length)
	}
	switch kind {
	case blockSection, blockInterface, blockPacket, blockSimple, blockEnhanced:
		if length > maxBlock {
			return 0, nil, fmt.Errorf("a block of %d bytes, longer than any frame", length)
		}
	default:
		if _, err := io.CopyN(io.Discard, p.r, int64(length)-4); err != nil {
			return 0, nil, cutShort(err)
		}
		return kind, nil, p.end(length, p.buf[:4])
	}
	b := p.buf[:length]
	if _, err := io.ReadFull(p.r, b[:length-4]); err != nil {
		return 0, nil, cutShort(err)
	}
	return kind, b[8 : length-4], p.end(length, b[length-4:])
}

// end reads the length after a block into b, which must equal the one before it.
func (p *pcapngReader) end(length uint32, b []byte) error {
	if _, err := io.ReadFull(p.r, b); err != nil {
		return cutShort(err)
	}
	if behind := p.order.Uint32(b); behind != length {
		return fmt.Errorf("a block of %d bytes with a final length of %d", length, behind)
	}
	return nil
}

var (
	errShortBlock = errors.New("a block that is too short for its type")
	errVersion    = errors.New("a section of an unsupported version of pcapng (only 1 is supported)")
)

// section begins a section. Sections of other versions are skipped: §4.1.
func (p *pcapngReader) section(b []byte) error {
	if len(b) < 16 {
		return errShortBlock
	}
	p.known = p.order.Uint16(b[4:]) == 1
	p.interfaces = p.interfaces[:0]
	return nil
}

// describe records an interface: §4.2.
func (p *pcapngReader) describe(b []byte) error {
	if len(b) < 8 {
		return errShortBlock
	}
	if len(p.interfaces) == maxInterfaces {
		return fmt.Errorf("more than %d interfaces", maxInterfaces)
	}
	i := captureInterface{link: linkType(p.order.Uint16(b)), snap: p.order.Uint32(b[4:]), perSecond: 1e6}
	for b = b[8:]; len(b) >= 4 && p.order.Uint16(b) != optionEnd; {
		code, n := p.order.Uint16(b), int(p.order.Uint16(b[2:]))
		if b = b[4:]; n > len(b) {
			return errors.New("an option longer than its block")
		}
		switch {
		case code == optionResolution && n == 1:
			i.perSecond = perSecond(b[0])
		case code == optionOffset && n == 8:
			i.offset = int64(p.order.Uint64(b))
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	p.interfaces = append(p.interfaces, i)
	return nil
}

// perSecond is the number of units in a second: §4.2: a power of ten, or of two with the highest bit set; 0: neither.
func perSecond(resolution byte) uint64 {
	if e := resolution &^ 0x80; resolution != e {
		return 1 << e
	}
	if resolution > 19 {
		return 0
	}
	return uint64(math.Pow10(int(resolution)))
}

// time converts a timestamp; zero if its resolution is not representable, or it is beyond year
// 9999, the limit of RFC 3339, as for writers that count nanoseconds without declaring it.
func (i *captureInterface) time(ts uint64) time.Time {
	if i.perSecond == 0 {
		return time.Time{}
	}
	const last = 253402300799 // 9999-12-31T23:59:59Z
	s := ts / i.perSecond
	if s > last || i.offset < -last || i.offset > last || int64(s)+i.offset < 0 || int64(s)+i.offset > last {
		return time.Time{}
	}
	hi, lo := bits.Mul64(ts%i.perSecond, 1e9)
	nanos, _ := bits.Div64(hi, lo, i.perSecond)
	return time.Unix(int64(s)+i.offset, int64(nanos))
}

// frame returns the frame in a block, if any: §4.3, §4.4, and appendix A for the obsolete kind.
func (p *pcapngReader) frame(kind uint32, b []byte) (f frame, ok bool, err error) {
	var number, have uint32
	var ts uint64
	switch kind {
	case blockEnhanced, blockPacket:
		if len(b) < 20 {
			return frame{}, false, errShortBlock
		}
		number = p.order.Uint32(b)
		if kind == blockPacket {
			number = uint32(p.order.Uint16(b)) // the next field is the number of dropped frames
		}
		ts = uint64(p.order.Uint32(b[4:]))<<32 | uint64(p.order.Uint32(b[8:]))
		have, b = p.order.Uint32(b[12:]), b[20:]
	case blockSimple:
		if len(b) < 4 {
			return frame{}, false, errShortBlock
		}
		have, b = p.order.Uint32(b), b[4:]
	default:
		return frame{}, false, nil
	}
	if uint64(number) >= uint64(len(p.interfaces)) {
		return frame{}, false, fmt.Errorf("a frame of interface %d, which the capture does not describe", number)
	}
	i := &p.interfaces[number]
	f.link = i.link
	if kind == blockSimple {
		if have = min(have, uint32(len(b))); i.snap > 0 {
			have = min(have, i.snap)
		}
	} else {
		f.at = i.time(ts)
	}
	if uint64(have) > uint64(len(b)) {
		return frame{}, false, fmt.Errorf("a frame with a capture length of %d bytes in a block with room for %d", have, len(b))
	}
	f.data = b[:have:have]
	return f, true, nil
}

// pcapReader reads the format pcap: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-06.html
type pcapReader struct {
	r     io.Reader
	order binary.ByteOrder
	unit  time.Duration // of the second half of a timestamp
	link  linkType
	buf   []byte // of the frame
}

const (
	pcapHeader   = 24
	pcapFrame    = 16 // before each frame
	magicMicro   = 0xa1b2c3d4
	magicNano    = 0xa1b23c4d
	pcapLinkMask = 0xffff // above it are flags and the length of the frame check sequence
)

func newPcap(r *bufio.Reader) (*pcapReader, error) {
	b := make([]byte, pcapHeader)
	_, err := io.ReadFull(r, b)
	if err != nil && !errors.Is(cutShort(err), io.ErrUnexpectedEOF) {
		return nil, err
	}
	p := &pcapReader{r: r, order: binary.LittleEndian}
	magic := func() uint32 { return p.order.Uint32(b) }
	if m := magic(); m != magicMicro && m != magicNano {
		p.order = binary.BigEndian
	}
	switch magic() {
	case magicMicro:
		p.unit = time.Microsecond
	case magicNano:
		p.unit = time.Nanosecond
	default:
		return nil, errNoCapture
	}
	if err != nil {
		return nil, errCutHeader
	}
	if major, minor := p.order.Uint16(b[4:]), p.order.Uint16(b[6:]); major != 2 || minor != 4 {
		return nil, fmt.Errorf("version %d.%d of pcap is not supported, only 2.4", major, minor)
	}
	p.link = linkType(p.order.Uint32(b[20:]) & pcapLinkMask)
	return p, checkLink(p.link)
}

func (p *pcapReader) next() (frame, error) {
	var h [pcapFrame]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		return frame{}, err // io.EOF between frames
	}
	n := p.order.Uint32(h[8:])
	if n > maxFrame {
		return frame{}, fmt.Errorf("a frame with a capture length of %d bytes, longer than any frame (possibly a variant of pcap: convert it with editcap -F pcapng)", n)
	}
	if p.buf == nil {
		p.buf = make([]byte, maxFrame)
	}
	if _, err := io.ReadFull(p.r, p.buf[:n]); err != nil {
		return frame{}, cutShort(err)
	}
	at := time.Unix(int64(p.order.Uint32(h[:])), int64(p.order.Uint32(h[4:]))*int64(p.unit))
	return frame{data: p.buf[:n:n], at: at, link: p.link}, nil
}
