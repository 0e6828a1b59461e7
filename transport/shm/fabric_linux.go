package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fabric is the directory in which the endpoints of a fabric discover each other: it contains a memory file and a pipe
// for each endpoint, and the members file. The members file holds a number that grows whenever an endpoint joins or
// leaves, under the file's lock. Any goroutine may call its methods.
type fabric struct {
	dir
	members int     // descriptor
	mem     []byte  // the members file, mapped
	busy    [8]byte // content of the members file while another process held its lock

	suspect atomic.Bool // a peer may have ended, or is invalid: the next scan checks
}

// enterFabric creates the directory of a fabric if necessary, locks its members file, and calls settle to create the
// endpoint's files. It starts over if the directory is removed meanwhile, by the last endpoint that leaves or by a
// sweep of empty fabrics. The members file stays locked.
func enterFabric(cfg Config, settle func(*fabric) error) (*fabric, error) {
	d, err := findDir(cfg)
	if err != nil {
		return nil, err
	}
	h := &fabric{dir: d, members: -1}
	for p := newLockWait(time.Now()); ; time.Sleep(time.Millisecond) {
		if err = h.enter(); err == nil {
			err = settle(h)
		}
		if err == nil {
			return h, nil
		}
		again := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLocked)
		if !again || p.over(time.Now(), h.busy) {
			if errors.Is(err, errLocked) {
				err = p.locked(h.path, lockHolder(h.members))
			}
			err = advised(err, cfg.Dir)
			h.withdraw()
			return nil, fmt.Errorf("shm: %w", err)
		}
		h.leave()
	}
}

// enter creates the directory and the members file if necessary, and locks it.
func (h *fabric) enter() error {
	if err := h.open(); err != nil {
		return err
	}
	err := h.lockMembersFile()
	if errors.Is(err, fs.ErrNotExist) {
		if err = h.makeMembersFile(); err == nil {
			err = h.lockMembersFile()
		}
	}
	return err
}

// withdraw undoes enterFabric.
func (h *fabric) withdraw() {
	if h.mem != nil { // the members file is locked
		h.removeDeserted()
	} else if h.fd >= 0 {
		h.removeEmpty()
	}
	h.leave()
}

// unlock releases the lock of the members file, so that others can join and leave.
func (h *fabric) unlock() { unix.Flock(h.members, unix.LOCK_UN) }

// count is the number in the members file. Others could truncate a shared one.
func (h *fabric) count() (n uint64) {
	if h.shared {
		defer guard(debug.SetPanicOnFault(true), nil)
	}
	return word(h.mem, 0).Load()
}

// announce increments the number, so that all other endpoints scan.
func (h *fabric) announce() {
	if h.shared {
		defer guard(debug.SetPanicOnFault(true), nil)
	}
	word(h.mem, 0).Add(1)
}

// guard restores debug.SetPanicOnFault, and recovers from a fault in mapped memory: peer p, if not nil, is marked bad.
// Call it with defer.
func guard(old bool, p *peer) {
	debug.SetPanicOnFault(old)
	x := recover()
	if x == nil {
		return
	}
	if _, ok := x.(interface{ Addr() uintptr }); !ok {
		panic(x)
	}
	if p != nil {
		p.markBad()
	}
}

// leave closes the members file and the directory.
func (h *fabric) leave() {
	if h.mem != nil {
		unix.Munmap(h.mem)
		h.mem = nil
	}
	if h.members >= 0 {
		unix.Close(h.members)
		h.members = -1
	}
	h.close()
}

// list returns the ids of the endpoint files in the directory. Only regular files count.
func (h *fabric) list() (ids []uint64, err error) {
	names, err := h.names()
	for _, name := range names {
		if id, ok := parseFileName(name); ok && h.stateByName(name) != dead {
			ids = append(ids, id)
		}
	}
	return ids, err
}

const bellSuffix = ".bell"

func fileName(id uint64) string { return fmt.Sprintf("%016x", id) }
func bellName(id uint64) string { return fileName(id) + bellSuffix }

func parseFileName(name string) (uint64, bool) {
	id, err := strconv.ParseUint(name, 16, 64)
	return id, err == nil && id != 0 && name == fileName(id)
}

func parseBellName(name string) (uint64, bool) {
	name, ok := strings.CutSuffix(name, bellSuffix)
	id, is := parseFileName(name)
	return id, ok && is
}

// alive reports whether the file's owner holds its lock.
func alive(fd int) bool {
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	unix.Flock(fd, unix.LOCK_UN)
	return false
}
