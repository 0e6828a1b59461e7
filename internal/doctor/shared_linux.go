package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// LookAtShared gathers the facts of a directory for shared memory.
func LookAtShared(dir string) SharedMemory {
	m := SharedMemory{Dir: dir}
	var st unix.Statfs_t
	if m.Err = unix.Statfs(dir, &st); m.Err != nil {
		return m
	}
	m.Bytes, m.Free = int64(st.Blocks)*int64(st.Bsize), int64(st.Bavail)*int64(st.Bsize)
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		m.Err = err
		return m
	}
	defer unix.Close(at)
	for _, name := range namesIn(at) {
		if !strings.HasPrefix(name, "fanfare-") {
			continue
		}
		p, ok := placeAt(at, name, filepath.Join(dir, name), name)
		if !ok {
			continue
		}
		m.Places = append(m.Places, p)
		if p.wrong() == "" {
			m.addFabrics(at, &p)
		}
	}
	return m
}

// addFabrics adds what is in the place of a user or group, if that is a directory and its owner's: what others may have put
// there in its stead is not looked into.
func (m *SharedMemory) addFabrics(at int, of *SharedPlace) {
	dir, ok := openDir(at, of.Name)
	if !ok {
		return
	}
	defer unix.Close(dir)
	for _, name := range namesIn(dir) {
		if strings.HasPrefix(name, ".") {
			continue
		}
		p, ok := placeAt(dir, name, filepath.Join(of.Path, name), of.Name)
		if !ok {
			continue
		}
		p.Inner = true
		if p.wrong() == "" {
			p.lookInto(dir, name)
		}
		m.Places = append(m.Places, p)
	}
}

// openDir opens a directory, and follows no link.
func openDir(at int, name string) (fd int, ok bool) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, err == nil // of others only root may look
}

// namesIn is what a directory holds.
func namesIn(at int) []string {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	slices.Sort(names)
	return names
}

// placeAt is what has a name in a directory, unless it has just been removed. It follows no link.
func placeAt(at int, name, path, of string) (p SharedPlace, ok bool) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return p, false
	}
	return SharedPlace{Path: path, Name: of, IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR, UID: int(st.Uid), GID: int(st.Gid), Mode: st.Mode & 0o7777}, true
}

// lookInto looks what memory the files of a fabric have, and whether one of their owners lives, who locks his (flock(2)).
func (p *SharedPlace) lookInto(at int, name string) {
	dir, ok := openDir(at, name)
	if !ok {
		return
	}
	defer unix.Close(dir)
	files, living := 0, false
	for _, name := range namesIn(dir) {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		p.Bytes += st.Blocks * 512
		if !isEndpoint(name) {
			continue // whose lock others need for a moment
		}
		files++
		living = living || st.Size == 0 || owned(dir, name) // one that is being made is locked before it has a size
	}
	p.Left = files > 0 && !living
}

// isEndpoint reports whether a file is an endpoint's, by its name. docs/protocol.md §28.1.
func isEndpoint(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// owned reports whether the owner of an endpoint's file lives, or that cannot be said.
func owned(at int, name string) bool {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd) // which ends the lock
	return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil
}
