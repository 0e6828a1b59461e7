package contenders

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/sys"
)

// raw is what the machine can do from Go: trains of datagrams through UDP GSO
// and GRO (udp(7): UDP_SEGMENT, UDP_GRO), messages written with their length
// before them and parsed again, and nothing else: no repair, no flow control.
//
// A datagram is
//
//	sequence (8 bytes) | 24 bytes of nothing, as room for a header
//
// followed by messages, each behind its length (4 bytes).
type raw struct{}

const (
	// rawTrain bounds a train: the IP length field, and the kernel's
	// UDP_MAX_SEGMENTS, which older kernels have at 64.
	rawTrain    = 65000
	rawSegments = 64
	// rawRing is the packet memory that is written round and round, in bytes: what
	// 4096 datagrams of Ethernet take, and no more where they are larger.
	rawRing = 4096 * 1472
	// rawBatch is how many trains one call receives.
	rawBatch  = 16
	rawBuffer = 1 << 16
	// rawPoll is how often a blocked receiver looks whether it is over.
	rawPoll = 50 * time.Millisecond
)

// Publish implements worker.Contender.
func (raw) Publish(ctx context.Context, r *worker.Run) error {
	g, err := parseGroup(r.Spec.Address, r.Spec.Interface)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := rawSendSocket(g, r.Spec.SendBuf)
	if err != nil {
		return fmt.Errorf("raw: %w", err)
	}
	defer unix.Close(fd)
	if r.Spec.Load == worker.LoadFull {
		return publishTrains(ctx, r, fd, g, newRawWriter(r))
	}
	// Not under load each message is a datagram of its own.
	if r.Spec.Size > MaxRawPaced {
		return fmt.Errorf("raw: %d bytes: %w", r.Spec.Size, errTooLarge)
	}
	r.Ready("")
	b := make([]byte, rawHeader+rawLength+r.Spec.Size)
	out := newRawTrain(fd, g, len(b))
	seq := uint64(0)
	return r.Pump(ctx, func(_ int, msg []byte) error {
		binary.LittleEndian.PutUint64(b, seq)
		seq++
		binary.LittleEndian.PutUint32(b[rawHeader:], uint32(len(msg)))
		copy(b[rawHeader+rawLength:], msg)
		return out.send(b)
	}, nil)
}

func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

func rawSendSocket(g group, buffer int) (int, error) {
	fd, err := rawSocket()
	if err != nil {
		return -1, err
	}
	if err := sys.SetMulticast(fd, g.local, g.iface.Index, 1, true); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("interface %s: %w", g.iface.Name, err)
	}
	sys.SetSendBuffer(fd, buffer)
	return fd, nil
}

// rawSocket makes a UDP socket that blocks.
func rawSocket() (int, error) {
	fd, err := sys.OpenUDP(false)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	return fd, err
}

// publishTrains sends trains as large as the kernel takes.
func publishTrains(ctx context.Context, r *worker.Run, fd int, g group, w *rawWriter) error {
	seg := r.Spec.MTU
	each := w.fields() + w.size
	if rawHeader+each > seg {
		return fmt.Errorf("raw: %d bytes: %w", w.size, errTooLarge)
	}
	seg = rawHeader + (seg-rawHeader)/each*each // none is left empty behind the messages
	nseg := min(max(rawTrain/seg, 1), rawSegments)
	slots := max(rawRing/seg, nseg)
	ring, err := unix.Mmap(-1, 0, slots*seg, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("raw: packet memory: %w", err)
	}
	defer unix.Munmap(ring)
	out := newRawTrain(fd, g, seg)
	r.Ready("")
	r.Begin()
	end := r.Deadline()
	slot, calls := 0, 0
	for ; calls&63 != 0 || worker.Now() < end && ctx.Err() == nil; calls++ {
		if slot+nseg > slots {
			slot = 0
		}
		train := ring[slot*seg : (slot+nseg)*seg]
		for at := 0; at < len(train); at += seg {
			w.packet(train[at : at+seg : at+seg])
		}
		if err := out.send(train); err != nil {
			return err
		}
		slot += nseg
	}
	err = out.send(w.last(ring[:seg]))
	r.Published(w.src)
	r.Figures(map[string]float64{"packets": float64(w.seq), "send_calls": float64(calls)})
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// rawTrainSender is one prepared sendmsg.
type rawTrainSender struct {
	fd  int
	seg int
	to  unix.RawSockaddrInet4
	iov unix.Iovec
	hdr unix.Msghdr
	oob []byte // a control message UDP_SEGMENT
}

func newRawTrain(fd int, g group, seg int) *rawTrainSender {
	t := &rawTrainSender{fd: fd, seg: seg, oob: make([]byte, unix.CmsgSpace(2))}
	t.to = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: g.addr.Addr().As4(), Port: networkOrder(g.addr.Port())}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&t.oob[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(t.oob[unix.CmsgLen(0):], uint16(seg))
	t.hdr.Name, t.hdr.Namelen = (*byte)(unsafe.Pointer(&t.to)), unix.SizeofSockaddrInet4
	t.hdr.Iov = &t.iov
	t.hdr.SetIovlen(1)
	return t
}

func (t *rawTrainSender) send(train []byte) error {
	t.iov.Base = &train[0]
	t.iov.SetLen(len(train))
	t.hdr.Control = nil
	t.hdr.SetControllen(0)
	if len(train) > t.seg {
		t.hdr.Control = &t.oob[0]
		t.hdr.SetControllen(len(t.oob))
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(t.fd), uintptr(unsafe.Pointer(&t.hdr)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR, unix.ENOBUFS:
			continue
		}
		return fmt.Errorf("raw: sendmsg of %d bytes in datagrams of %d: %w", len(train), t.seg, errno)
	}
}

// rawWriter fills datagrams.
type rawWriter struct {
	src    *worker.Source
	topics []*rawTopic // where there are many
	size   int
	seq    uint64
}

func newRawWriter(r *worker.Run) *rawWriter {
	w := &rawWriter{src: r.Source(0), size: r.Spec.Size}
	if r.Spec.Many() {
		w.topics = rawTopics(r.Spec.TopicNames())
	}
	return w
}

// fields is how many bytes stand before each message.
func (w *rawWriter) fields() int {
	if w.topics != nil {
		return rawTopicFields
	}
	return rawLength
}

// packet fills one datagram.
func (w *rawWriter) packet(p []byte) {
	binary.LittleEndian.PutUint64(p, w.seq)
	w.seq++
	off := rawHeader
	if w.topics == nil {
		off += w.src.Fill(p[rawHeader:])
	}
	for w.topics != nil && off+rawTopicFields+w.size <= len(p) {
		topic, msg := w.src.Take()
		off += w.topics[topic].put(p[off:], msg)
	}
	if off+rawLength <= len(p) {
		binary.LittleEndian.PutUint32(p[off:], 0) // no more
	}
}

// last returns a datagram with the message that is marked as the last one.
func (w *rawWriter) last(p []byte) []byte {
	binary.LittleEndian.PutUint64(p, w.seq)
	w.seq++
	topic, msg := w.src.Last()
	if w.topics != nil {
		return p[:rawHeader+w.topics[topic].put(p[rawHeader:], msg)]
	}
	binary.LittleEndian.PutUint32(p[rawHeader:], uint32(w.size))
	return p[:rawHeader+rawLength+copy(p[rawHeader+rawLength:], msg)]
}
