package shm

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ownFile is the memory file of this endpoint, and the pipe with which others wake it.
type ownFile struct {
	id         uint64
	fd         int // descriptor of the file, which is locked
	bell       int // descriptor for reading the pipe
	mem        []byte
	backed     [maxChunks]uint8 // pages of each chunk with allocated memory
	fullChunks int              // chunks outside of windows with more than a page allocated
	rings      [lanes]bool      // lanes with allocated descriptors; under Transport.mu
	returns    [lanes]bool      // lanes with allocated positions to return; under Transport.fetching
	rung       [4096]byte       // read buffer for the pipe, a field to avoid allocations
}

// makeFile creates the files of an endpoint. The members file must be locked.
func (h *fabric) makeFile(id uint64, depth int) (f *ownFile, err error) {
	f = &ownFile{id: id, fd: -1, bell: -1}
	defer func() {
		if err != nil {
			f.remove(h)
			f.unmap()
			f.close()
			f, err = nil, fmt.Errorf("make an endpoint in %s: %w", h.path, err)
		}
	}()
	path, bell := fileName(id), bellName(id)
	if f.fd, err = h.openFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL); err != nil {
		return f, err
	}
	// Lock it before it is shared, or another process could lock it first.
	if err = unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return f, named(err, "lock", path)
	}
	mode, bellMode := uint32(0o600), uint32(0o600)
	if h.shared {
		mode, bellMode = 0o640, 0o620
	}
	if err = h.share(f.fd, mode); err != nil {
		return f, named(err, "share", path)
	}
	if err = unix.Ftruncate(f.fd, fileBytes); err != nil {
		return f, named(err, "enlarge", path)
	}
	if err = allocate(f.fd, 0, atRings); err != nil {
		return f, err
	}
	if f.mem, err = unix.Mmap(f.fd, 0, fileBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return f, named(err, "map", path)
	}
	if f.bell, err = h.makePipe(bell, bellMode); err != nil {
		return f, err
	}
	word(f.mem, atID).Store(id)
	word(f.mem, atPID).Store(uint64(os.Getpid()))
	word(f.mem, atDepth).Store(uint64(depth))
	word(f.mem, atMagic).Store(magic)
	return f, nil
}

// openLane allocates memory for a lane's descriptors with the first one, because most endpoints never send to each
// other.
func (f *ownFile) openLane(lane int) error {
	if err := allocate(f.fd, ringAt(lane, 0), ringBytes); err != nil {
		return err
	}
	f.rings[lane] = true
	word(f.mem, openAt(lane)).Store(1)
	return nil
}

// backReturns allocates memory for the positions that are returned to the sender of a lane.
func (f *ownFile) backReturns(lane int) error {
	if f.returns[lane] {
		return nil
	}
	err := allocate(f.fd, returnsAt(lane, 0), returnBytes)
	f.returns[lane] = err == nil
	return err
}

// clearLane erases the lane of a previous endpoint; positions start at 0 again.
func (f *ownFile) clearLane(lane int) {
	if !f.rings[lane] {
		return
	}
	if used := word(f.mem, ringAt(lane, 0)+8).Load() != 0; used {
		clear(f.mem[ringAt(lane, 0):][:ringBytes])
	}
}

// backChunk allocates memory for the first bytes of a chunk: no more than needed, because many held trains are short.
func (f *ownFile) backChunk(chunk uint32, bytes int) (grown bool, err error) {
	if f.backs(chunk, bytes) {
		return false, nil
	}
	pages := uint8((bytes + pageBytes - 1) / pageBytes)
	if pages > 1 && f.fullChunks >= fewChunks && f.spare() < int(pages)*pageBytes {
		return false, errSpared
	}
	if err := allocate(f.fd, chunkAt(chunk), int(pages)*pageBytes); err != nil {
		return false, err
	}
	f.backed[chunk] = pages
	if pages > 1 {
		f.fullChunks++
	}
	return true, nil
}

// backRow allocates memory for consecutive chunks.
func (f *ownFile) backRow(first uint32, chunks int) error {
	if f.spare() < chunks*chunkBytes {
		return errSpared
	}
	if err := allocate(f.fd, chunkAt(first), chunks*chunkBytes); err != nil {
		return err
	}
	for i := range chunks {
		f.backed[int(first)+i] = chunkBytes / pageBytes
	}
	return nil
}

// backs reports whether memory is allocated for the first bytes of a chunk.
func (f *ownFile) backs(chunk uint32, bytes int) bool {
	return int(f.backed[chunk])*pageBytes >= bytes
}

// Trains leave one part in sparedPart of the free memory for lanes, for packets up to a page, such as NAKs and
// statuses, and for the first chunks of an endpoint. Otherwise an endpoint that sends much would leave others no memory
// to reply.
const (
	sparedPart = 8
	fewChunks  = 4
)

var errSpared = errors.New("shm: the remaining memory is reserved for lanes and short packets")

// spare is the number of bytes that trains may still use now.
func (f *ownFile) spare() int {
	var st unix.Statfs_t
	if unix.Fstatfs(f.fd, &st) != nil || st.Blocks == 0 { // tmpfs(5): no limit
		return maxChunks * chunkBytes
	}
	free, spared := st.Bavail, st.Blocks/sparedPart
	return int(min((max(free, spared)-spared)*uint64(st.Bsize), maxChunks*chunkBytes))
}

// room is the number of chunks that can still be allocated now.
func (f *ownFile) room() int { return f.spare() / chunkBytes }

// chunk returns the first bytes of a chunk.
func (f *ownFile) chunk(chunk uint32, bytes int) []byte {
	at := chunkAt(chunk)
	return f.mem[at : at+bytes : at+bytes]
}

// chunkOf returns the chunk in which mem begins, and the offset there, if it is in the file.
func (f *ownFile) chunkOf(mem []byte) (chunk uint32, off int, ok bool) {
	if len(mem) == 0 || len(f.mem) == 0 {
		return 0, 0, false
	}
	at := uintptr(unsafe.Pointer(&mem[0])) - uintptr(unsafe.Pointer(&f.mem[atChunks]))
	if at >= maxChunks*chunkBytes {
		return 0, 0, false
	}
	return uint32(at / chunkBytes), int(at % chunkBytes), true
}

// remove removes the files from the directory; endpoints that have mapped them keep them.
func (f *ownFile) remove(h *fabric) {
	if f.fd >= 0 {
		h.remove(fileName(f.id))
		h.remove(bellName(f.id))
	}
}

// unmap unmaps the file.
func (f *ownFile) unmap() {
	if f.mem != nil {
		unix.Munmap(f.mem)
		f.mem = nil
	}
}

// close closes the descriptors, which releases the lock. The memory stays mapped.
func (f *ownFile) close() {
	for _, fd := range []*int{&f.bell, &f.fd} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// drainBell reads pending wake-ups once: a member of the group that keeps writing must not occupy this process. Unread
// bytes only end the next sleep early.
func (f *ownFile) drainBell() { _, _ = unix.Read(f.bell, f.rung[:]) }
