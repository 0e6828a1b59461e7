package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// dir is the open directory of a fabric: members of a shared group can replace it or the directory above it, but
// endpoints that have opened it keep using the original. Any goroutine may call its methods.
type dir struct {
	place           // its owner
	path     string // for error texts, and to remove the directory above
	name     string // name within the directory above
	above    int    // descriptor of the directory above; -1: not open
	fd       int    // descriptor of the directory; -1: not open
	distrust bool   // Config.distrust
}

// findDir returns the unopened directory of a fabric, within the directory of its user or group.
func findDir(cfg Config) (dir, error) {
	d := dir{place: ownPlace(), name: cfg.Name, above: -1, fd: -1, distrust: cfg.distrust}
	if cfg.Group != "" {
		gid, err := groupID(cfg.Group)
		if err != nil {
			return d, err
		}
		d.place = place{shared: true, id: gid}
	}
	if err := checkDir(cfg.Dir); err != nil {
		return d, err
	}
	d.path = filepath.Join(cfg.Dir, d.dirName(), cfg.Name)
	return d, nil
}

// checkDir returns an error if the directory for shared memory is not usable.
func checkDir(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingDir(dir, err)
	case err != nil:
		return fmt.Errorf("shm: dir=%s: %w", dir, err)
	case !st.IsDir():
		return fmt.Errorf("shm: dir=%s is not a directory: name one, the same for all processes of the fabric", dir)
	}
	return nil
}

// missingDir adds a remedy to the error that Config.Dir does not exist. It is not created, because other processes must
// use the same.
func missingDir(dir string, err error) error {
	if dir == DefaultDir {
		return fmt.Errorf("shm: %w: mount it (mount -t tmpfs tmpfs /dev/shm), or name an existing directory (dir= in the URL, the same for all processes of the fabric)", err)
	}
	return fmt.Errorf("shm: dir=%s: %w: make it first; it must be the same for all processes of the fabric", dir, err)
}

// ownPlace is the place of this user.
func ownPlace() place { return place{id: os.Geteuid()} }

// noGroup is not a valid group number: chown(2) leaves the group unchanged for it.
const noGroup = 1<<32 - 1

// groupID is the number of a group that this process is in.
func groupID(name string) (int, error) {
	gid, err := strconv.Atoi(name)
	if err == nil && int64(gid) >= noGroup { // an int may have 32 bits
		return 0, fmt.Errorf("shm: group=%s: there are groups up to %d", name, int64(noGroup-1))
	}
	if err != nil || gid < 0 {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, fmt.Errorf("shm: group=%s: %w", name, err)
		}
		if gid, err = strconv.Atoi(g.Gid); err != nil {
			return 0, fmt.Errorf("shm: group=%s: %w", name, err)
		}
	}
	all, err := os.Getgroups()
	if err != nil {
		return 0, fmt.Errorf("shm: group=%s: %w", name, err)
	}
	if os.Geteuid() != 0 && os.Getegid() != gid && !slices.Contains(all, gid) {
		return 0, fmt.Errorf("shm: group=%s: %w: this process is not in that group (see id); add its user to it, and log in again", name, fs.ErrPermission)
	}
	return gid, nil
}

// open creates the directory and the one above, if necessary, and opens both.
func (d *dir) open() (err error) {
	above := filepath.Dir(d.path)
	if d.above, err = d.openAt(unix.AT_FDCWD, above, above); err == nil {
		d.fd, err = d.openAt(d.above, d.name, d.path)
	}
	return err
}

func (d *dir) close() {
	for _, fd := range []*int{&d.fd, &d.above} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// openAt creates a directory if necessary, opens it, and checks that others cannot write to it.
func (d *dir) openAt(at int, name, path string) (fd int, err error) {
	if err := d.makeAt(at, name, path); err != nil {
		return -1, err
	}
	if fd, err = d.lookUp(at, name, path); err != nil {
		return -1, err
	}
	if err = d.check(fd, path); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// makeAt creates a directory. One for a group has a draft name until it is shared: if this process is killed before
// that, other members of the group do not find a directory that they cannot access, and the next attempt uses the
// draft.
func (d *dir) makeAt(at int, name, path string) error {
	if !d.shared {
		return ignoreExists(unix.Mkdirat(at, name, 0o700), path)
	}
	draft := draftOf(name)
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		unix.Unlinkat(at, draft, unix.AT_REMOVEDIR)
		return nil
	}
	path = draftOf(path)
	if err := ignoreExists(unix.Mkdirat(at, draft, 0o700), path); err != nil {
		return err
	}
	fd, err := d.lookUp(at, draft, path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := d.shareDraft(fd, path); err != nil {
		unix.Unlinkat(at, draft, unix.AT_REMOVEDIR)
		return err
	}
	return ignoreExists(unix.Renameat2(at, draft, at, name, unix.RENAME_NOREPLACE), path)
}

// draftOf is the name, or path, of a directory until it is shared.
func draftOf(name string) string {
	return filepath.Join(filepath.Dir(name), draftPrefix+filepath.Base(name)+"-"+strconv.Itoa(os.Geteuid()))
}

// ignoreExists returns nil if err is EEXIST, and otherwise err with the path.
func ignoreExists(err error, path string) error {
	if err == unix.EEXIST {
		return nil
	}
	return named(err, "make", path)
}

// lookUp opens an existing directory.
func (d *dir) lookUp(at int, name, path string) (fd int, err error) {
	regain(at, name)
	fd, err = openDir(at, name)
	switch err {
	case nil:
		return fd, nil
	case unix.ENOTDIR, unix.ELOOP:
		return -1, fmt.Errorf("%s is not a directory: remove it", path)
	case unix.EACCES:
		var st unix.Stat_t
		if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			break
		}
		if int(st.Uid) != os.Geteuid() {
			return -1, d.foreign(&st, path)
		}
		if missingBits(&st) != 0 {
			return -1, fmt.Errorf("%w: %s has mode %#o, which excludes its owner, because of a umask or a chmod: chmod u+rwx it",
				fs.ErrPermission, path, st.Mode&permissions)
		}
	}
	return -1, named(err, "open", path)
}

// shareDraft shares our own draft directory. If the directory is not empty another user has put it there, and sharing
// it would expose its contents.
func (d *dir) shareDraft(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return named(err, "stat", path)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o5777 != 0o700 {
		return nil
	}
	if names, err := namesAt(fd, path); err != nil || len(names) > 0 {
		return errors.Join(err, fmt.Errorf("%s would be shared with group %d, but is not empty: move it to another directory", path, d.id))
	}
	return named(d.share(fd, d.mode()), "share", path)
}

// check returns an error if others can write to a directory.
func (d *dir) check(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return named(err, "stat", path)
	}
	switch d.acceptsFile(&st) {
	case ofOthers:
		return d.foreign(&st, path)
	case toOthers:
		return fmt.Errorf("%s has mode %#o, which gives others access: it must be %#o at most; have it removed", path, st.Mode&permissions, d.mode())
	}
	return nil
}

// permissions are the bits of a file's mode other than its type.
const permissions = 0o7777

// acceptsFile is accepts for the result of stat.
func (p place) acceptsFile(st *unix.Stat_t) refusal {
	return p.accepts(st.Mode&unix.S_IFMT == unix.S_IFDIR, int(st.Uid), int(st.Gid), st.Mode&permissions)
}

// foreign is the error for a directory that belongs neither to this user nor to the sharing group. In a directory like
// /dev/shm any user may have made it.
func (d *dir) foreign(st *unix.Stat_t, path string) error {
	group := ""
	if d.shared {
		group = fmt.Sprintf(" and is not shared with group %d", d.id)
	}
	return fmt.Errorf("%w: %s belongs to user %d%s: a user with write permission there could read and replace what you publish; have it removed, or use another directory (dir= in the URL, the same for all processes of the fabric)",
		fs.ErrPermission, path, st.Uid, group)
}

// share sets the mode of our own file, and its group if the place is shared.
func (d *dir) share(fd int, mode uint32) error {
	if d.shared {
		if err := unix.Fchown(fd, -1, d.id); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, mode)
}

// openFile opens a file without following a link.
func (d *dir) openFile(name string, flags int) (int, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	return fd, named(err, "open", filepath.Join(d.path, name))
}

// names lists the files in the directory.
func (d *dir) names() ([]string, error) { return namesAt(d.fd, d.path) }

func namesAt(at int, path string) ([]string, error) {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, named(err, "list", path)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return f.Readdirnames(-1)
}

// inode is the inode number of a file.
func (d *dir) inode(name string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Ino, err
}

func (d *dir) remove(name string) { unix.Unlinkat(d.fd, name, 0) }

// discard removes a file or an empty directory.
func (d *dir) discard(name string) {
	if unix.Unlinkat(d.fd, name, 0) == unix.EISDIR {
		unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR)
	}
}

// removeEmpty removes the directory and the one above if they are empty.
func (d *dir) removeEmpty() {
	unix.Unlinkat(d.above, d.name, unix.AT_REMOVEDIR)
	unix.Rmdir(filepath.Dir(d.path))
}

func named(err error, op, path string) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
