package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hall is the directory in which the endpoints of a fabric find each other: a memory file and a
// pipe of each, and the roll. The roll is a number that grows whenever an endpoint joins or leaves;
// who does holds its lock. Any goroutine may call its methods.
type hall struct {
	dir
	roll int     // descriptor
	mem  []byte  // the roll, mapped
	busy [8]byte // what the roll was when its lock was not to be had
}

const rollName = "roll"

// rollWait is how long the lock of the roll is waited for while nobody comes or goes: who holds
// it needs milliseconds, but hundreds may come at once.
const rollWait = 5 * time.Second

// mostRollWait is how long it is waited for in all, however many come and go.
const mostRollWait = 30 * time.Second

// enterHall makes the directory of a fabric, if there is none, and locks its roll.
func enterHall(cfg Config) (*hall, error) {
	d, err := findDir(cfg)
	if err != nil {
		return nil, err
	}
	h := &hall{dir: d, roll: -1}
	first, last := time.Now(), h.busy
	for began := first; ; time.Sleep(time.Millisecond) {
		err := h.open()
		if err == nil {
			if err = h.lockRoll(); errors.Is(err, fs.ErrNotExist) {
				if err = h.makeRoll(); err == nil {
					err = h.lockRoll()
				}
			}
		}
		if err == nil {
			return h, nil
		}
		if h.busy != last {
			began, last = time.Now(), h.busy
		}
		// Whoever leaves last removes the directory, and who sweeps what nobody is in.
		again := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLocked)
		if !again || time.Since(began) > rollWait || time.Since(first) > mostRollWait {
			if h.fd >= 0 {
				h.removeEmpty() // we may have made it
			}
			h.leave()
			return nil, fmt.Errorf("shm: %w", err)
		}
		h.leave()
	}
}

var errLocked = errors.New("another process has held the lock of the fabric for long: is it stopped?")

// draftPrefix begins the names of what is not ready: no fabric has such a name.
const draftPrefix = "."

// makeRoll makes a roll. It gets its name when it is shared: if we are killed before, others of
// the group find none, and clean removes the draft.
func (h *hall) makeRoll() error {
	mode := uint32(0o600)
	if h.shared {
		mode = 0o660
	}
	draft := draftPrefix + rollName + "-" + rand.Text()
	path := filepath.Join(h.path, draft)
	fd, err := h.openFile(draft, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = h.share(fd, mode); err != nil {
		err = named(err, "share", path)
	} else if err = allocate(fd, 0, pageBytes); err != nil {
		err = named(err, "allocate", path)
	} else {
		err = made(unix.Renameat2(h.fd, draft, h.fd, rollName, unix.RENAME_NOREPLACE), path)
	}
	h.remove(draft)
	return err
}

// lockRoll opens and locks the roll, and maps it.
func (h *hall) lockRoll() (err error) {
	path := filepath.Join(h.path, rollName)
	if h.roll, err = h.openFile(rollName, unix.O_RDWR); err != nil {
		return err
	}
	if err := unix.Flock(h.roll, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_, _ = unix.Pread(h.roll, h.busy[:], 0)
		return fmt.Errorf("%s: %w", h.path, errLocked)
	}
	var st unix.Stat_t
	if err := unix.Fstat(h.roll, &st); err != nil {
		return named(err, "look at", path)
	}
	if ino, err := h.inode(rollName); err != nil || ino != st.Ino {
		return named(fs.ErrNotExist, "lock", path) // it was removed meanwhile
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 { // or a member of the group had us write into a file of ours
		return fmt.Errorf("%s is no file of its own: remove it", path)
	}
	if st.Size < pageBytes {
		if err := allocate(h.roll, 0, pageBytes); err != nil {
			return named(err, "allocate", path)
		}
	}
	h.mem, err = unix.Mmap(h.roll, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return named(err, "map", path)
}

// allocate has memory behind a part of a file: without, to write there would be a fault
// (SIGBUS) when there is no more.
func allocate(fd, at, n int) error {
	for {
		err := unix.Fallocate(fd, 0, int64(at), int64(n))
		if err != unix.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// unlock lets others come and go.
func (h *hall) unlock() { unix.Flock(h.roll, unix.LOCK_UN) }

// count is the roll. Of a shared one others could cut off the end.
func (h *hall) count() (n uint64) {
	if h.shared {
		defer guard(debug.SetPanicOnFault(true), nil)
	}
	return word(h.mem, 0).Load()
}

// announce has all others look who is there.
func (h *hall) announce() {
	if h.shared {
		defer guard(debug.SetPanicOnFault(true), nil)
	}
	word(h.mem, 0).Add(1)
}

// guard ends what debug.SetPanicOnFault began. A fault in mapped memory is then the fault of
// a peer, or of nobody. It is to be deferred.
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
		p.spoil()
	}
}

// leave closes the roll and the directory.
func (h *hall) leave() {
	if h.mem != nil {
		unix.Munmap(h.mem)
		h.mem = nil
	}
	if h.roll >= 0 {
		unix.Close(h.roll)
		h.roll = -1
	}
	h.close()
}

// list is the ids of the files in the directory.
func (h *hall) list() (ids []uint64, err error) {
	names, err := h.names()
	for _, name := range names {
		if id, ok := parseFileName(name); ok {
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
