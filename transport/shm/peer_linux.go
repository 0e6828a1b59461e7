package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// peer is another endpoint of the fabric, or this one: its file, mapped read-only, and the two
// lanes between it and us. In our file both have the number slot; in its file, lane.
type peer struct {
	id, pid  uint64
	mem      []byte
	fd       int
	slot     int
	lane     atomic.Int32  // number of our lane in its file; -1: it has not given us one yet
	absentAt atomic.Uint64 // its atMet when there was none
	depth    int           // trains to it that may be out at a time
	// stranger: another user's. That user may truncate the file, or write into it at any time, so its
	// memory is never lent, and is read with a guard.
	stranger bool
	bad      atomic.Bool // it wrote what makes no sense, or its file has been cut off

	suspect *atomic.Bool // makes the next scan list the endpoints

	toPeer
	fromPeer
}

// toPeer is the state of sending to it. Under Transport.mu.
type toPeer struct {
	gone   atomic.Bool // it has ended, or is bad
	wanted bool        // it gets the train that is sent
	tail   uint64      // of our lane to it
	reaped uint64      // of what it has returned
	out    int         // trains that it has not returned
	held   [laneSlots]uint32
	void   [laneSlots]bool // positions of the last lap that were passed over
	voids  int             // how many
	rung   uint64          // its atAsleep when it was woken last
	lacked int64           // when there was no memory for our lane to it, in nanoseconds
	bell   int             // -1: not open yet
}

// fromPeer is the state of receiving from it. Under Transport.fetching.
type fromPeer struct {
	next    uint64 // position of its lane to us
	dropped uint64 // what it has counted there, as far as we have counted it
	given   uint64 // positions that we have returned
	open    bool   // there is memory behind its lane to us
	// starved: there is no memory for positions to return to it, so that nothing is fetched until the next scan.
	starved atomic.Bool
	// Loop only.
	lentOut int
	lent    [laneSlots]bool
}

// noChunk is an entry of peer.held that is free.
const noChunk = void

// meet opens the file of an endpoint. It returns nil where it is not ready, or is gone.
func (h *fabric) meet(id uint64) (*peer, error) {
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
		p.stranger = h.distrust || !ours(&st)
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

// ours reports whether only this user can have written a file: it owns the file, and no other user may
// write to it. Members of a group can give any file of the directory the name of an endpoint, also the
// members file, which all of them may write.
func ours(st *unix.Stat_t) bool { return int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0 }

// otherVersion reports whether a file begins as those of another layout do.
func otherVersion(m uint64) bool { return m != magic && (m^magic)<<8 == 0 }

var errVersion = errors.New("it is of another version of Fanfare: bring all processes of this host to one")

var errNotReady = errors.New("shm: the endpoint is not ready, or has ended")

// load is a number in its file.
func (p *peer) load(at int) uint64 {
	if p.stranger {
		return p.loadGuarded(at)
	}
	return word(p.mem, at).Load()
}

func (p *peer) loadGuarded(at int) (n uint64) {
	defer guard(debug.SetPanicOnFault(true), p)
	return word(p.mem, at).Load()
}

// returned is a position that it has returned.
func (p *peer) returned(lane int, pos uint64) (n uint32) {
	if p.stranger {
		defer guard(debug.SetPanicOnFault(true), p)
	}
	return half(p.mem, returnsAt(lane, pos)).Load()
}

// copy copies from its file. It reports false where that has been cut off.
func (p *peer) copy(dst []byte, at int) bool {
	if p.stranger {
		defer guard(debug.SetPanicOnFault(true), p)
	}
	copy(dst, p.mem[at:])
	return !p.bad.Load()
}

// spoil records that it has written an invalid value, or has truncated its file: it is not read any more, and
// the next scan retires it.
func (p *peer) spoil() {
	p.bad.Store(true)
	p.suspect.Store(true)
}

// findLane looks which lane it has given us, and reports whether it has.
func (p *peer) findLane(us uint64) (lane int, ok bool) {
	if lane := p.lane.Load(); lane >= 0 {
		return int(lane), true
	}
	met := p.load(atMet)
	if met == p.absentAt.Load() {
		return 0, false
	}
	for i := range lanes {
		if p.load(laneIDAt(i)) == us {
			p.lane.Store(int32(i))
			return i, true
		}
	}
	p.absentAt.Store(met)
	return 0, false
}

// opened reports whether there is memory behind its lane to us. Under Transport.fetching.
func (p *peer) opened(lane int) bool {
	if !p.open {
		p.open = p.load(openAt(lane)) != 0
	}
	return p.open
}

// wants reports whether it has joined the group.
func (p *peer) wants(group int) bool {
	at, bit := groupAt(group)
	return p.load(at)&bit != 0
}

// wake rings its bell if it sleeps and this process has not done so yet. Under Transport.mu.
func (p *peer) wake(h *fabric) (rang bool) {
	asleep := p.load(atAsleep)
	if asleep&1 == 0 || asleep == p.rung {
		return false
	}
	if p.bell < 0 {
		fd, err := h.openFile(bellName(p.id), unix.O_WRONLY)
		if err != nil {
			return false // it is about to go, or we have no descriptor left: the next train tries again
		}
		if !isPipe(fd) { // a user with write access to the directory may have put another file of ours there
			unix.Close(fd)
			return false
		}
		p.bell = fd
	}
	p.rung = asleep
	_, _ = unix.Write(p.bell, ring) // full: it is awake, or about to be
	return true
}

var ring = []byte{1}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// ended reports whether it has closed, or died.
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
