package tap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// pcapReader reads the older of the two formats:
// https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-06.html
type pcapReader struct {
	r     io.Reader
	order binary.ByteOrder
	unit  time.Duration // of a timestamp's second half
	link  linkType
	buf   []byte // of the frame
}

const (
	pcapHeader   = 24
	pcapFrame    = 16 // before each frame
	magicMicro   = 0xa1b2c3d4
	magicNano    = 0xa1b23c4d
	pcapLinkMask = 0xffff // above it are flags, and the length of the check sequence
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
		return nil, fmt.Errorf("this capture is of version %d.%d of pcap, and only 2.4 can be read", major, minor)
	}
	p.link = linkType(p.order.Uint32(b[20:]) & pcapLinkMask)
	return p, checkLink(p.link)
}

func (p *pcapReader) next() (frame, error) {
	var h [pcapFrame]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		return frame{}, err // io.EOF between two frames
	}
	n := p.order.Uint32(h[8:])
	if n > maxFrame {
		return frame{}, fmt.Errorf("a frame with a capture length of %d bytes, which is more than any has (an odd kind of pcap? editcap -F pcapng makes a usual one of it)", n)
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
