package shm

import (
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

// hall is where the endpoints of a fabric meet: a memory file and a pipe of each in a directory,
// and the roll. The roll is a number that grows whenever somebody came or went; its lock is
// held by who does. Any goroutine may call its methods.
type hall struct {
	dir
	roll int     // descriptor
	mem  []byte  // the roll, mapped
	busy [8]byte // what the roll was when its lock was not to be had
}

const rollName = "roll"

// patience is how long the lock of the roll is waited for while nobody comes or goes: who holds
// it needs milliseconds, but hundreds may come at once.
const patience = 5 * time.Second

// enterHall makes the directory of a fabric, if there is none, and locks its roll.
func enterHall(cfg Config) (*hall, error) {
	d, err := findDir(cfg)
	if err != nil {
		return nil, err
	}
	h := &hall{dir: d, roll: -1}
	began, last := time.Now(), h.busy
	for ; ; time.Sleep(time.Millisecond) {
		err := h.open()
		if err == nil {
			err = h.lockRoll()
		}
		if err == nil {
			return h, nil
		}
		h.leave()
		if h.busy != last {
			began, last = time.Now(), h.busy
		}
		// Whoever leaves last removes the directory, and who shares it is not yet done.
		again := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLocked) || h.shared && errors.Is(err, fs.ErrPermission)
		if !again || time.Since(began) > patience {
			return nil, fmt.Errorf("shm: %w", err)
		}
	}
}

var errLocked = errors.New("another process has held the lock of the fabric for long: is it stopped?")

// lockRoll opens and locks the roll, and maps it.
func (h *hall) lockRoll() (err error) {
	path := filepath.Join(h.path, rollName)
	mode := uint32(0o600)
	if h.shared {
		mode = 0o660
	}
	if h.roll, err = h.openFile(rollName, unix.O_RDWR|unix.O_CREAT); err != nil {
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
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is no file: remove it", path)
	}
	if st.Size < pageBytes {
		if err := allocate(h.roll, 0, pageBytes); err != nil {
			return named(err, "allocate", path)
		}
	}
	if int(st.Uid) == os.Geteuid() && st.Mode&0o777 != mode {
		if err := h.share(h.roll, mode); err != nil {
			return named(err, "share", path)
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
func (h *hall) list() (ids []uint64) {
	for _, name := range h.names() {
		if id, ok := parseFileName(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
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

// clean removes what dead owners have left, and returns how many endpoints live. The roll is
// locked: nobody is about to come.
func (h *hall) clean() (living int) {
	for _, name := range h.names() {
		if id, ok := parseFileName(name); ok {
			if fd, err := h.openFile(name, unix.O_RDONLY); err == nil {
				if alive(fd) {
					living++
				} else {
					h.remove(name)
					h.remove(bellName(id))
				}
				unix.Close(fd)
			} else if !errors.Is(err, fs.ErrNotExist) {
				living++ // whose it is cannot be said
			}
		} else if owner, ok := parseBellName(name); ok {
			if _, err := h.inode(fileName(owner)); errors.Is(err, fs.ErrNotExist) {
				h.remove(name)
			}
		}
	}
	return living
}

// alive reports whether the file's owner holds its lock.
func alive(fd int) bool {
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	unix.Flock(fd, unix.LOCK_UN)
	return false
}

// vanish removes the directory if nobody is left. It is no failure if that has to wait for
// another one.
func (h *hall) vanish() {
	if unix.Flock(h.roll, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if h.clean() == 0 {
		h.remove(rollName)
		h.removeEmpty()
	}
	h.unlock()
}
