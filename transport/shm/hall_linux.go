package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// hall is the directory of a fabric: a memory file and a pipe of each endpoint, and the roll.
// The roll is a number that grows whenever somebody came or went; its lock is held by who
// does. Any goroutine may call its methods.
type hall struct {
	dir    string
	gid    int     // of the group that shares it; -1: none
	shared bool    // by a group
	roll   int     // descriptor
	mem    []byte  // the roll, mapped
	busy   [8]byte // what the roll was when its lock was not to be had

	distrust bool // Config.distrust
}

const rollName = "roll"

// patience is how long the lock of the roll is waited for while nobody comes or goes: who holds
// it needs milliseconds, but hundreds may come at once.
const patience = 5 * time.Second

// enterHall makes the directory of a fabric, if there is none, and locks its roll.
func enterHall(cfg Config) (*hall, error) {
	h := &hall{gid: -1, roll: -1, distrust: cfg.distrust}
	owner := strconv.Itoa(os.Geteuid())
	if cfg.Group != "" {
		gid, err := groupID(cfg.Group)
		if err != nil {
			return nil, err
		}
		h.gid, h.shared, owner = gid, true, "g"+strconv.Itoa(gid)
	}
	if _, err := os.Stat(cfg.Dir); err != nil {
		return nil, fmt.Errorf("shm: the directory for shared memory: %w", err)
	}
	parent := filepath.Join(cfg.Dir, "fanfare-"+owner)
	h.dir = filepath.Join(parent, cfg.Name)
	began, last := time.Now(), h.busy
	for ; ; time.Sleep(time.Millisecond) {
		err := h.makeDir(parent)
		if err == nil {
			err = h.makeDir(h.dir)
		}
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

func groupID(name string) (int, error) {
	if gid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(gid), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("shm: group=%s: %w", name, err)
	}
	return strconv.Atoi(g.Gid)
}

// makeDir makes a directory, or makes sure that others cannot write into it.
func (h *hall) makeDir(dir string) error {
	mode := uint32(0o700)
	if h.shared {
		mode = 0o2770
	}
	err := unix.Mkdir(dir, 0o700)
	if err == nil && h.shared {
		if err = h.shareDir(dir, mode); err != nil {
			unix.Rmdir(dir)
		}
		return named(err, "make", dir)
	}
	if err != nil && err != unix.EEXIST {
		return named(err, "make", dir)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return named(err, "look at", dir)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no directory: remove it", dir)
	case !h.shared && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d: who may write there could read and replace what you publish; have it removed", dir, st.Uid)
	case h.shared && int(st.Gid) != h.gid:
		return &fs.PathError{Op: fmt.Sprintf("use what is not yet of group %d:", h.gid), Path: dir, Err: fs.ErrPermission}
	case st.Mode&0o7777&^mode != 0:
		return fmt.Errorf("%s has mode %#o, which lets others in: it must be %#o at most; have it removed", dir, st.Mode&0o7777, mode)
	}
	return nil
}

func named(err error, op, path string) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

var errLocked = errors.New("another process has held the lock of the fabric for long: is it stopped?")

// lockRoll opens and locks the roll, and maps it.
func (h *hall) lockRoll() (err error) {
	path := filepath.Join(h.dir, rollName)
	mode := uint32(0o600)
	if h.shared {
		mode = 0o660
	}
	if h.roll, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600); err != nil {
		return named(err, "open", path)
	}
	if err := unix.Flock(h.roll, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_, _ = unix.Pread(h.roll, h.busy[:], 0)
		return fmt.Errorf("%s: %w", h.dir, errLocked)
	}
	var st, now unix.Stat_t
	if err := unix.Fstat(h.roll, &st); err != nil {
		return named(err, "look at", path)
	}
	if err := unix.Lstat(path, &now); err != nil || now.Ino != st.Ino {
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

// share gives a file of ours its mode, and to the group.
func (h *hall) share(fd int, mode uint32) error {
	if h.shared {
		if err := unix.Fchown(fd, -1, h.gid); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, mode)
}

// shareDir shares a directory that was just made, and not what another member of the group may
// have put in its place since, such as a link to a directory of ours.
func (h *hall) shareDir(dir string, mode uint32) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return h.share(fd, mode)
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

// leave closes the roll.
func (h *hall) leave() {
	if h.mem != nil {
		unix.Munmap(h.mem)
		h.mem = nil
	}
	if h.roll >= 0 {
		unix.Close(h.roll)
		h.roll = -1
	}
}

// list is the ids of the files in the directory.
func (h *hall) list() (ids []uint64) {
	names, _ := os.ReadDir(h.dir) // it may be gone
	for _, e := range names {
		if id, ok := parseFileName(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

const bellSuffix = ".bell"

func fileName(id uint64) string { return fmt.Sprintf("%016x", id) }

func parseFileName(name string) (uint64, bool) {
	id, err := strconv.ParseUint(name, 16, 64)
	return id, err == nil && id != 0 && name == fileName(id)
}

func (h *hall) path(id uint64) string     { return filepath.Join(h.dir, fileName(id)) }
func (h *hall) bellPath(id uint64) string { return h.path(id) + bellSuffix }

// clean removes what dead owners have left, and returns how many endpoints live. The roll is
// locked: nobody is about to come.
func (h *hall) clean() (living int) {
	names, _ := os.ReadDir(h.dir)
	for _, e := range names {
		path := filepath.Join(h.dir, e.Name())
		if id, ok := parseFileName(e.Name()); ok {
			if fd, err := openFile(path); err == nil {
				if alive(fd) {
					living++
				} else {
					unix.Unlink(path)
					unix.Unlink(h.bellPath(id))
				}
				unix.Close(fd)
			} else if !errors.Is(err, fs.ErrNotExist) {
				living++ // whose it is cannot be said
			}
		} else if owner, ok := parseBellName(e.Name()); ok {
			if _, err := os.Lstat(h.path(owner)); errors.Is(err, fs.ErrNotExist) {
				unix.Unlink(path)
			}
		}
	}
	return living
}

func parseBellName(name string) (uint64, bool) {
	if len(name) != 16+len(bellSuffix) || name[16:] != bellSuffix {
		return 0, false
	}
	return parseFileName(name[:16])
}

// openFile opens a file that somebody else has made.
func openFile(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return fd, named(err, "open", path)
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
		unix.Unlink(filepath.Join(h.dir, rollName))
		unix.Rmdir(h.dir)
		unix.Rmdir(filepath.Dir(h.dir))
	}
	h.unlock()
}
