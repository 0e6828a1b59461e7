package contenders

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// ring shows what shared memory can do from Go: one writer writes messages after their length into a ring, and each
// reader parses them in place, with its own cursor. The writer waits for the slowest reader. Neither side sleeps, and
// nothing else is done: no topics, no flow control except the capacity of the ring, no protection against a side that
// stops.
//
//	written | readers | cursor of each reader, a line each | slots, each a length and a block
//
// A block has the layout of a raw datagram.
type ring struct{}

const (
	ringSlots   = 32             // 2 MiB, which fits in caches
	ringCursors = 2              // lines before the cursors
	ringPitch   = ringBlock + 64 // an odd number of cache lines
	ringLine    = 128
	ringReaders = 256
	ringBegin   = (ringCursors + ringReaders) * ringLine
	ringBytes   = ringBegin + ringSlots*ringPitch
)

// openRing maps the ring of a run, which the first reader creates.
func openRing(address string) (mem []byte, path string, err error) {
	path = filepath.Join("/dev/shm", "fanfare-ring-"+strings.ReplaceAll(address, ":", "-"))
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fallocate(fd, 0, 0, ringBytes)
	}
	if err == nil {
		mem, err = unix.Mmap(fd, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err != nil {
		return nil, path, fmt.Errorf("ring: %s: %w", path, err)
	}
	return mem, path, nil
}

func ringWord(mem []byte, line int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[line*ringLine]))
}

func ringSlot(mem []byte, n uint64) []byte {
	at := ringBegin + int(n%ringSlots)*ringPitch
	return mem[at : at+ringPitch : at+ringPitch]
}

// ringWait yields after many unsuccessful polls, because there may be fewer processors than sides.
func ringWait(polls int) {
	if polls%256 == 0 {
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// ringWriter writes blocks.
type ringWriter struct {
	mem     []byte
	next    uint64 // block
	slowest uint64 // a recent value of a reader's cursor
}

// block is the next block, after all readers have passed its previous content.
func (w *ringWriter) block(ctx context.Context) ([]byte, error) {
	for polls := 1; w.next-w.slowest >= ringSlots; polls++ {
		w.slowest = w.next
		for i := range int(ringWord(w.mem, 1).Load()) {
			w.slowest = min(w.slowest, ringWord(w.mem, ringCursors+i).Load())
		}
		if ringWait(polls); polls%(1<<16) == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return ringSlot(w.mem, w.next)[ringPitch-ringBlock:], nil
}

// publish makes the first bytes of the block visible to the readers.
func (w *ringWriter) publish(bytes int) {
	binary.LittleEndian.PutUint64(ringSlot(w.mem, w.next), uint64(bytes))
	w.next++
	ringWord(w.mem, 0).Store(w.next)
}

// Publish implements worker.Contender.
func (ring) Publish(ctx context.Context, r *worker.Run) error {
	mem, path, err := openRing(r.Spec.Address)
	if err != nil {
		return err
	}
	defer unix.Munmap(mem)
	defer os.Remove(path) // all readers have mapped it
	w := &ringWriter{mem: mem}
	r.Ready("")
	if r.Spec.Load != worker.LoadFull {
		return r.Pump(ctx, func(_ int, msg []byte) error {
			b, err := w.block(ctx)
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint64(b, w.next)
			binary.LittleEndian.PutUint32(b[rawHeader:], uint32(len(msg)))
			w.publish(rawHeader + rawLength + copy(b[rawHeader+rawLength:], msg))
			return nil
		}, nil)
	}
	r.Begin()
	fill := newRawWriter(r)
	for end := r.Deadline(); w.next&15 != 0 || worker.Now() < end && ctx.Err() == nil; {
		b, err := w.block(ctx)
		if err != nil {
			return err
		}
		fill.packet(b)
		w.publish(ringBlock)
	}
	b, err := w.block(ctx)
	if err != nil {
		return err
	}
	w.publish(len(fill.last(b)))
	r.Published(fill.src)
	return context.Cause(ctx)
}

// Subscribe implements worker.Contender.
func (ring) Subscribe(ctx context.Context, r *worker.Run) error {
	mem, path, err := openRing(r.Spec.Address)
	if err != nil {
		return err
	}
	defer unix.Munmap(mem)
	defer os.Remove(path) // if there was no publisher
	me := int(ringWord(mem, 1).Add(1)) - 1
	if me >= ringReaders {
		return errors.New("ring: too many readers")
	}
	written, cursor := ringWord(mem, 0), ringWord(mem, ringCursors+me)
	p := &rawParser{v: r.Receiver(true)}
	r.Ready("")
	next, over := uint64(0), false
	for polls := 1; !p.v.Done(); polls++ {
		if written.Load() == next {
			if over || ctx.Err() != nil {
				break
			}
			ringWait(polls)
			over = polls%(1<<16) == 0 && r.Over()
			continue
		}
		over = false
		slot := ringSlot(mem, next)
		n := min(binary.LittleEndian.Uint64(slot), ringBlock)
		b := slot[ringPitch-ringBlock:][:n]
		p.train(b, len(b))
		next++
		cursor.Store(next)
	}
	return context.Cause(ctx)
}
