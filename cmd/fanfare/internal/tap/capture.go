package tap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/rdma/roce"
)

// frame is a frame of a capture. Its data is valid until the next is read.
type frame struct {
	data []byte
	at   time.Time // zero if the capture has no valid time
	link linkType
	left error // why this frame, and possibly later ones, is skipped; nil: it is valid
}

type frames interface {
	next() (frame, error)
}

const maxFrame = 262144 // the longest frame: MAXIMUM_SNAPLEN of libpcap

var (
	errNoCapture = errors.New("not a capture file: neither pcap nor pcapng (convert other formats with editcap -F pcapng)")
	errCutHeader = errors.New("not a capture file: it ends within its header")
)

type capture struct {
	frames  frames
	groups  *Groups
	close   func() error
	wake    func() // ends a waiting read
	lost    func() uint64
	again   func(error) bool // reports whether an error only means to check for an interruption
	ended   atomic.Bool
	queue   []Packet // of the last frame read
	skipped map[string]uint64
	read    uint64 // number of frames
}

func newCapture(f frames, groups *Groups) *capture {
	return &capture{
		frames: f, groups: groups, skipped: make(map[string]uint64),
		wake: func() {}, lost: func() uint64 { return 0 }, again: func(error) bool { return false },
	}
}

// OpenFile reads pcap and pcapng files, compressed with gzip or not. Close closes r if it is an io.Closer.
func OpenFile(r io.Reader, groups *Groups) (Source, error) {
	closeFile := func() error { return nil }
	if c, ok := r.(io.Closer); ok {
		closeFile = c.Close
	}
	buf := bufio.NewReader(r)
	plain, err := unpacked(buf)
	if err != nil {
		return nil, err
	}
	begin, err := plain.Peek(4)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("not a capture file: it is too short")
	}
	if err != nil {
		return nil, err
	}
	var f frames
	if bytes.Equal(begin, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		f, err = newPcapng(plain)
	} else {
		f, err = newPcap(plain)
	}
	if err != nil {
		return nil, err
	}
	c := newCapture(f, groups)
	c.close, c.wake = closeFile, func() { closeFile() } // a read from a pipe may block
	return c, nil
}

// cutShort converts io.EOF of a read in the middle of a structure.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func unpacked(r *bufio.Reader) (*bufio.Reader, error) {
	if b, err := r.Peek(2); err != nil || b[0] != 0x1f || b[1] != 0x8b {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a capture file: %w", err)
	}
	return bufio.NewReader(z), nil
}

func (c *capture) Next() (*Packet, error) {
	for len(c.queue) == 0 {
		f, err := c.frames.next()
		switch {
		case c.ended.Load():
			return nil, ErrInterrupted
		case c.again(err):
			continue
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("the capture is truncated after %d complete frames, which were read: %w", c.read, err)
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("after %d frames, which were read: %w", c.read, err)
		case f.left != nil:
			c.skip(f.left)
			continue
		}
		c.read++
		c.frame(f.link, f.data, f.at)
	}
	p := c.queue[0]
	c.queue = c.queue[1:]
	return &p, nil
}

var ErrInterrupted = errors.New("interrupted") // the error of Next after Interrupt

func (c *capture) frame(link linkType, b []byte, at time.Time) {
	c.queue = c.queue[:0]
	if err := checkLink(link); err != nil {
		c.skipped[err.Error()]++
		return
	}
	if link == linkERF {
		var err error
		if link, b, err = erfOf(b); err != nil {
			c.skip(err)
			return
		}
	}
	if link == linkIB {
		p, bth, err := udOf(b)
		if err != nil {
			c.skip(err)
			return
		}
		p.Time = at
		c.ud(p, bth)
		return
	}
	var d datagram
	proto, b, err := packetOf(link, b)
	if err == nil {
		d, err = udpUnder(proto, b, 0)
	}
	if err != nil {
		c.skip(err)
		return
	}
	p := Packet{Time: at, From: d.from.String(), To: d.to.String()}
	if d.to.Port() == roce.Port {
		p.To = d.to.Addr().Unmap().String()
		if d.to.Addr().IsMulticast() {
			p.To = udAddress(d.to.Addr())
		}
		p.From = d.from.Addr().Unmap().String()
		c.ud(p, d.payload)
		return
	}
	if d.to.Addr().IsMulticast() {
		p.Address = p.To
	}
	ours := d.to.Port() == c.groups.port && c.groups.port != 0
	for b := range split(d.payload) {
		if ours || isPacket(b) {
			p.Data = b
			c.queue = append(c.queue, p)
		}
	}
}

func (c *capture) ud(p Packet, b []byte) {
	_, ours := c.groups.byAddress[p.To]
	if strings.HasPrefix(p.To, "ud:") {
		p.Address = p.To
	}
	for payload, err := range roce.Payloads(b) {
		if p.Data, p.Err = payload, err; err != nil {
			p.Data = b
		}
		if ours || err == nil && isPacket(payload) {
			c.queue = append(c.queue, p)
		}
	}
}

func (c *capture) skip(err error) {
	if !errors.Is(err, errNotUDP) {
		c.skipped[err.Error()]++
	}
}

// isPacket reports whether a datagram is a packet of any version, or a sealed or signed one, whatever its destination.
func isPacket(b []byte) bool {
	_, h, err := wire.ParseKept(b)
	return wire.IsSealed(b) || wire.IsSigned(b) || err == nil && h.Type >= wire.TypeData && h.Type <= wire.LastType
}

func (c *capture) Interrupt() {
	c.ended.Store(true)
	c.wake()
}

func (c *capture) Lost() uint64 { return c.lost() }

func (c *capture) Skipped() map[string]uint64 { return c.skipped }

func (c *capture) Close() error { return c.close() }
