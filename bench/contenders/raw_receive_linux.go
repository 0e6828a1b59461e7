package contenders

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/sys"
)

// Subscribe implements worker.Contender.
func (raw) Subscribe(ctx context.Context, r *worker.Run) error {
	g, err := parseGroup(r.Spec.Address, r.Spec.Interface)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := rawSocket(g, func(fd int) error {
		sys.SetReceiveBuffer(fd, r.Spec.RecvBuf)
		if !sys.EnableGRO(fd) {
			return errors.New("UDP_GRO needs Linux 5.0 or later")
		}
		tv := unix.NsecToTimeval(int64(rawPoll))
		return cmp.Or(sys.Share(fd), sys.Bind(fd, g.addr, g.iface.Index), sys.Join(fd, g.addr.Addr(), g.iface.Index),
			os.NewSyscallError("SO_RCVTIMEO", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)))
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	in := newRawBatch(fd)
	p := &rawParser{v: r.Receiver(true)}
	if r.Spec.Many() {
		p.topics = make(map[uint64]*rawTopic)
		for _, t := range rawTopics(r.Spec.TopicNames()) {
			p.topics[t.id] = t
		}
	}
	r.Ready("")
	flags := unix.MSG_WAITFORONE
	if r.Spec.Wait == worker.WaitSpin {
		flags = unix.MSG_DONTWAIT
	}
	for quiet := int64(0); !p.v.Done(); {
		n, err := in.receive(flags)
		if errors.Is(err, unix.EAGAIN) {
			// After a timeout, or if nothing was available while spinning: the check for the end costs more than the clock.
			now := worker.Now()
			if now < quiet {
				continue
			}
			if r.Over() && quiet > 0 || ctx.Err() != nil {
				break
			}
			quiet = now + int64(rawPoll)
			continue
		}
		if err != nil {
			return err
		}
		quiet = 0
		for i := range n {
			p.train(in.train(i))
		}
	}
	r.Figures(map[string]float64{"packets": float64(p.packets), "receive_calls": float64(in.calls)})
	return context.Cause(ctx)
}

// rawBatchReceiver is one prepared recvmmsg.
type rawBatchReceiver struct {
	fd    int
	calls int
	mem   []byte
	hdr   [rawBatch]rawMmsghdr
	iov   [rawBatch]unix.Iovec
	oob   [rawBatch][64]byte
}

// rawMmsghdr is struct mmsghdr (recvmmsg(2)).
type rawMmsghdr struct {
	unix.Msghdr
	n uint32
}

func newRawBatch(fd int) *rawBatchReceiver {
	b := &rawBatchReceiver{fd: fd, mem: make([]byte, rawBatch*rawBuffer)}
	for i := range b.hdr {
		b.iov[i].Base = &b.mem[i*rawBuffer]
		b.iov[i].SetLen(rawBuffer)
		b.hdr[i].Iov = &b.iov[i]
		b.hdr[i].SetIovlen(1)
		b.hdr[i].Control = &b.oob[i][0]
	}
	return b
}

func (b *rawBatchReceiver) receive(flags int) (int, error) {
	for i := range b.hdr {
		b.hdr[i].SetControllen(len(b.oob[i]))
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(b.fd), uintptr(unsafe.Pointer(&b.hdr[0])),
			rawBatch, uintptr(flags), 0, 0)
		switch errno {
		case 0:
			b.calls++
			return int(n), nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, errno
		}
		return 0, fmt.Errorf("raw: recvmmsg: %w", errno)
	}
}

// train returns train i of the latest batch, and the size of its datagrams.
func (b *rawBatchReceiver) train(i int) ([]byte, int) {
	m := b.mem[i*rawBuffer:][:b.hdr[i].n]
	return m, cmp.Or(sys.ParseControl(b.oob[i][:b.hdr[i].Controllen]).Segment, len(m))
}

// rawParser parses datagrams.
type rawParser struct {
	v       *worker.Check
	topics  map[uint64]*rawTopic // by id, with many topics
	packets uint64
}

func (p *rawParser) train(b []byte, seg int) {
	for len(b) > 0 {
		d := b
		if seg < len(d) {
			d = d[:seg]
		}
		b = b[len(d):]
		p.packets++
		if len(d) < rawHeader {
			p.v.Bad(fmt.Sprintf("a datagram of %d bytes", len(d)))
			continue
		}
		if p.topics != nil {
			p.topicMessages(d[rawHeader:])
			continue
		}
		for off := rawHeader; off+rawLength <= len(d); {
			n := int(binary.LittleEndian.Uint32(d[off:]))
			off += rawLength
			if n == 0 || off+n > len(d) {
				break
			}
			p.v.Message(d[off : off+n])
			off += n
		}
	}
}
