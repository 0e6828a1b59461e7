package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// peer is another endpoint of the fabric, or this one: its file, mapped read-only, and the two lanes between it and us.
// In our file both lanes have the number slot, in its file the number lane.
type peer struct {
	id, pid  uint64
	mem      []byte
	fd       int
	slot     int
	lane     atomic.Int32  // number of our lanes in its file; -1: not assigned yet
	absentAt atomic.Uint64 // its atAssigned when no lane was assigned
	depth    int           // maximum of trains to it that are not returned
	// otherUser: its file belongs to another user, and may be truncated or overwritten at any time, so its memory is never
	// lent, and is read with a guard.
	otherUser bool
	bad       atomic.Bool // it wrote an invalid value, or its file was truncated

	suspect *atomic.Bool // makes the next scan list the endpoints

	toPeer
	fromPeer
}

// toPeer is the state of sending to a peer. Under Transport.mu.
type toPeer struct {
	gone       atomic.Bool // it has ended, or is bad
	receives   bool        // it receives the train being sent
	tail       uint64      // next position of our lane to it
	reaped     uint64      // number of returned positions that were processed
	out        int         // number of trains that it has not returned
	held       [laneSlots]uint32
	void       [laneSlots]bool // positions of the last lap that were skipped
	voids      int             // number of skipped positions
	rung       uint64          // its atAsleep when it was last woken
	noMemoryAt int64           // when memory for our lane to it was last missing, in nanoseconds
	bell       int             // -1: not open yet
}

// fromPeer is the state of receiving from a peer. Under Transport.fetching.
type fromPeer struct {
	next        uint64 // next position of its lane to us
	dropped     uint64 // number of its drops in that lane that we have counted
	returnCount uint64 // number of positions that we have returned
	open        bool   // its lane to us is allocated
	// starved: there is no memory for returned positions, so nothing is fetched until the next scan.
	starved atomic.Bool
	// Loop only.
	lentOut int
	lent    [laneSlots]bool
}

// noChunk marks a free entry of peer.held.
const noChunk = void

// connect opens the file of an endpoint. It returns errNotReady if the endpoint is not ready or has ended.
func (h *fabric) connect(id uint64) (*peer, error) {
	fd, err := h.openFile(fileName(id), unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	p := &peer{id: id, fd: fd, suspect: &h.suspect, toPeer: toPeer{bell: -1}}
	p.lane.Store(-1)
	p.absentAt.Store(^uint64(0))
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != fileBytes) {
		err = errNotReady
	}
	if err == nil {
		p.otherUser = h.distrust || !ours(&st)
		p.mem, err = unix.Mmap(fd, 0, fileBytes, unix.PROT_READ, unix.MAP_SHARED)
	}
	if err == nil && otherVersion(p.load(atMagic)) && alive(fd) {
		err = errVersion
	}
	if err == nil && (p.load(atMagic) != magic || p.load(atID) != id || p.load(atClosed) != 0 || !alive(fd)) {
		err = errNotReady
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.pid = p.load(atPID)
	p.depth = int(min(p.load(atDepth), laneSlots))
	for i := range p.held {
		p.held[i] = noChunk
	}
	return p, nil
}

// ours reports whether only this user can have written a file: this user owns it, and no other may write to it. Members
// of a group can rename any file of the directory to the name of an endpoint, also the members file, which all of them
// may write.
func ours(st *unix.Stat_t) bool { return int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0 }

// otherVersion reports whether m is the magic number of another layout version.
func otherVersion(m uint64) bool { return m != magic && (m^magic)<<8 == 0 }

var errVersion = errors.New("it has another version of Fanfare: run one version in all processes of this host")

var errNotReady = errors.New("shm: the endpoint is not ready, or has ended")

// load reads a number in the peer's file.
func (p *peer) load(at int) uint64 {
	if p.otherUser {
		return p.loadGuarded(at)
	}
	return word(p.mem, at).Load()
}

func (p *peer) loadGuarded(at int) (n uint64) {
	defer guard(debug.SetPanicOnFault(true), p)
	return word(p.mem, at).Load()
}

// returned reads a position that the peer has returned.
func (p *peer) returned(lane int, pos uint64) (n uint32) {
	if p.otherUser {
		defer guard(debug.SetPanicOnFault(true), p)
	}
	return half(p.mem, returnsAt(lane, pos)).Load()
}

// copy copies from the peer's file. It returns false if the file was truncated.
func (p *peer) copy(dst []byte, at int) bool {
	if p.otherUser {
		defer guard(debug.SetPanicOnFault(true), p)
	}
	copy(dst, p.mem[at:])
	return !p.bad.Load()
}

// markBad records that the peer has written an invalid value or truncated its file: it is not read any more, and the
// next scan retires it.
func (p *peer) markBad() {
	p.bad.Store(true)
	p.suspect.Store(true)
}

// findLane finds the lane that the peer has assigned to us; ok is false if it has not yet.
func (p *peer) findLane(us uint64) (lane int, ok bool) {
	if lane := p.lane.Load(); lane >= 0 {
		return int(lane), true
	}
	assigned := p.load(atAssigned)
	if assigned == p.absentAt.Load() {
		return 0, false
	}
	for i := range lanes {
		if p.load(laneIDAt(i)) == us {
			p.lane.Store(int32(i))
			return i, true
		}
	}
	p.absentAt.Store(assigned)
	return 0, false
}

// opened reports whether the peer's lane to us is allocated. Under Transport.fetching.
func (p *peer) opened(lane int) bool {
	if !p.open {
		p.open = p.load(openAt(lane)) != 0
	}
	return p.open
}

// hasJoined reports whether the peer has joined the group.
func (p *peer) hasJoined(group int) bool {
	at, bit := groupAt(group)
	return p.load(at)&bit != 0
}

// wake writes to the peer's pipe if it sleeps and this process has not woken it yet. Under Transport.mu.
func (p *peer) wake(h *fabric) (rang bool) {
	asleep := p.load(atAsleep)
	if asleep&1 == 0 || asleep == p.rung {
		return false
	}
	if p.bell < 0 {
		fd, err := h.openFile(bellName(p.id), unix.O_WRONLY)
		if err != nil {
			return false // it is ending, or we have no free descriptor: the next train tries again
		}
		if !isPipe(fd) { // a user with write access to the directory may have replaced it by another of our files
			unix.Close(fd)
			return false
		}
		p.bell = fd
	}
	p.rung = asleep
	_, _ = unix.Write(p.bell, ring) // a full pipe: it is awake, or will wake
	return true
}

var ring = []byte{1}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// ended reports whether the peer has closed or died.
func (p *peer) ended() bool { return p.bad.Load() || p.load(atClosed) != 0 || !alive(p.fd) }

func (p *peer) close() {
	if p.mem != nil {
		unix.Munmap(p.mem)
		p.mem = nil
	}
	p.closeBell()
	unix.Close(p.fd)
}

func (p *peer) closeBell() {
	if p.bell >= 0 {
		unix.Close(p.bell)
		p.bell = -1
	}
}

// address is the peer's address in a readable form.
func (p *peer) address(fabric string) string {
	return fmt.Sprintf("shm://%s#%d.%04x", fabric, p.pid, p.id&0xffff)
}
