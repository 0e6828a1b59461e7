package contenders

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/sys"
)

// raw shows what the machine can do from Go: trains of datagrams through UDP GSO and GRO (udp(7): UDP_SEGMENT,
// UDP_GRO), with messages that are written after their length and parsed again, and nothing else: no repair, no flow
// control.
//
// A datagram is
//
//	sequence (8 bytes) | 24 unused bytes, the size of a header
//
// followed by messages, each after its length (4 bytes).
type raw struct{}

const (
	// rawTrain bounds a train: by the IP length field, and by the kernel's UDP_MAX_SEGMENTS, 64 in older kernels.
	rawTrain    = 65000
	rawSegments = 64
	// rawRing is the size of the packet memory, a ring, in bytes: 4096 datagrams of Ethernet, or fewer larger ones.
	rawRing = 4096 * 1472
	// rawBatch is the number of trains that one call receives.
	rawBatch  = 16
	rawBuffer = 1 << 16
	// rawPoll is how often a blocked receiver checks for the end of the run.
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
	fd, err := rawSocket(g, func(fd int) error {
		sys.SetSendBuffer(fd, r.Spec.SendBuf)
		return sys.SetMulticast(fd, g.local, g.iface.Index, 1, true)
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if r.Spec.Load == worker.LoadFull {
		return publishTrains(ctx, r, fd, g, newRawWriter(r))
	}
	// Except under full load each message is a separate datagram.
	r.Ready("")
	b := make([]byte, rawHeader+rawLength+r.Spec.Size)
	out := newRawSender(fd, g, len(b))
	seq := uint64(0)
	return r.Pump(ctx, func(_ int, msg []byte) error {
		binary.LittleEndian.PutUint64(b, seq)
		seq++
		binary.LittleEndian.PutUint32(b[rawHeader:], uint32(len(msg)))
		copy(b[rawHeader+rawLength:], msg)
		return out.send(b)
	}, nil)
}

// rawSocket opens and configures a blocking UDP socket.
func rawSocket(g group, setup func(fd int) error) (int, error) {
	fd, err := sys.OpenUDP(false)
	if err != nil {
		return -1, fmt.Errorf("raw: %w", err)
	}
	if err := cmp.Or(unix.SetNonblock(fd, false), setup(fd)); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("raw: %s on %s: %w", g.addr, g.iface.Name, err)
	}
	return fd, nil
}

// publishTrains sends trains as large as the kernel accepts.
func publishTrains(ctx context.Context, r *worker.Run, fd int, g group, w *rawWriter) error {
	seg := r.Spec.MTU
	each := w.fields() + w.size
	seg = rawHeader + (seg-rawHeader)/each*each // no unused space after the messages
	nseg := min(max(rawTrain/seg, 1), rawSegments)
	slots := max(rawRing/seg, nseg)
	ring, err := unix.Mmap(-1, 0, slots*seg, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("raw: packet memory: %w", err)
	}
	defer unix.Munmap(ring)
	out := newRawSender(fd, g, seg)
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
	return cmp.Or(err, context.Cause(ctx))
}

// rawSender sends trains of datagrams of seg bytes to one address.
type rawSender struct {
	fd, seg int
	to      unix.SockaddrInet4
	oob     []byte // a control message UDP_SEGMENT
}

func newRawSender(fd int, g group, seg int) *rawSender {
	s := &rawSender{fd, seg, unix.SockaddrInet4{Port: int(g.addr.Port()), Addr: g.addr.Addr().As4()},
		sys.ControlBuffer(unix.CmsgSpace(2))}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&s.oob[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(s.oob[unix.CmsgLen(0):], uint16(seg))
	return s
}

func (s *rawSender) send(train []byte) error {
	oob := s.oob
	if len(train) <= s.seg {
		oob = nil
	}
	for {
		_, err := unix.SendmsgN(s.fd, train, oob, &s.to, 0)
		if err == nil || err != unix.EINTR && err != unix.ENOBUFS {
			return os.NewSyscallError("raw: sendmsg", err)
		}
	}
}

// rawWriter fills datagrams.
type rawWriter struct {
	src    *worker.Source
	topics []*rawTopic // with many topics
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

// fields is the number of bytes before each message.
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
		binary.LittleEndian.PutUint32(p[off:], 0) // end of the messages
	}
}

// last returns a datagram with the final message, which is marked.
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
