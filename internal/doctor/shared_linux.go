package doctor

import (
	"os"
	"path/filepath"
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
	entries, err := os.ReadDir(dir)
	if err != nil {
		m.Err = err
		return m
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "fanfare-") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		m.addPlace(path, e.Name())
		fabrics, _ := os.ReadDir(path) // of others only root may look
		for _, fabric := range fabrics {
			if !strings.HasPrefix(fabric.Name(), ".") {
				m.addPlace(filepath.Join(path, fabric.Name()), e.Name())
			}
		}
	}
	return m
}

func (m *SharedMemory) addPlace(path, name string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return // it has just been removed
	}
	p := SharedPlace{Path: path, Name: name, IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR, UID: int(st.Uid), GID: int(st.Gid), Mode: st.Mode & 0o7777}
	if p.IsDir && filepath.Base(path) != name {
		p.lookInto()
	}
	m.Places = append(m.Places, p)
}

// lookInto looks what memory the files of a fabric have, and whether one of their owners lives, who locks his (flock(2)).
func (p *SharedPlace) lookInto() {
	files, living := 0, false
	entries, _ := os.ReadDir(p.Path)
	for _, e := range entries {
		fd, err := unix.Open(filepath.Join(p.Path, e.Name()), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			living = true // whose it is cannot be said
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			files++
			p.Bytes += st.Blocks * 512
			if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
				living = true
			}
		}
		unix.Close(fd) // which ends the lock
	}
	p.Left = files > 0 && !living
}
