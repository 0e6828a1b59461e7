package shm

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Interface is the directory in which endpoints discover each other: each user and each group has another one.
func (t *Transport) Interface() string { return t.fabric.path }

// DescribeDir describes a directory for shared memory. It changes nothing there, follows no link, and does not block.
// Errors are those of the system, without the path.
func DescribeDir(dir string) (Memory, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Memory{}, err
	}
	m := Memory{Bytes: int64(st.Blocks) * int64(st.Bsize), Free: int64(st.Bavail) * int64(st.Bsize)}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Memory{}, err
	}
	defer unix.Close(at)
	for _, name := range sortedNames(at, dir) {
		if of, ok := placeOf(name); ok {
			m.add(of, at, name, filepath.Join(dir, name))
		}
	}
	return m, nil
}

// add adds the place of, and the fabrics in it.
func (m *Memory) add(of place, at int, name, path string) {
	p, ok := of.stat(at, name, path)
	if !ok {
		return
	}
	m.Places = append(m.Places, p)
	if p.Wrong != "" {
		return
	}
	dir, err := openDir(at, name)
	if err != nil {
		return // only root can list the places of others
	}
	defer unix.Close(dir)
	for _, name := range sortedNames(dir, path) {
		if strings.HasPrefix(name, draftPrefix) {
			continue
		}
		p, ok := of.stat(dir, name, filepath.Join(path, name))
		if !ok {
			continue
		}
		p.Fabric = true
		if p.Wrong == "" {
			p.addFiles(dir, name)
		}
		m.Places = append(m.Places, p)
	}
}

// stat describes a directory of a place; ok is false if that fails.
func (p place) stat(at int, name, path string) (x Place, ok bool) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return x, false
	}
	wrong := p.text(p.acceptsFile(&st), int(st.Uid), int(st.Gid), st.Mode&permissions)
	return Place{Path: path, User: int(st.Uid), Mine: p == ownPlace(), Wrong: wrong}, true
}

// addFiles adds the sizes of a fabric's files, and records whether any of its endpoints lives. It does not lock the
// members file, which others need to join and leave.
func (p *Place) addFiles(at int, name string) {
	dir, err := openDir(at, name)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	endpoints, living := 0, false
	for _, name := range sortedNames(dir, p.Path) {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		p.Bytes += st.Blocks * 512
		if _, ok := parseFileName(name); ok {
			endpoints++
			living = living || st.Size == 0 || owned(dir, name) // size 0: it is being created; it is locked before it has a size
		}
	}
	p.Left = endpoints > 0 && !living
}

// owned reports whether a file's owner lives, or that is unknown.
func owned(at int, name string) bool {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return alive(fd)
}

// openDir opens a directory without following a link.
func openDir(at int, name string) (fd int, err error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// sortedNames lists a directory; empty if that fails.
func sortedNames(at int, path string) []string {
	names, _ := namesAt(at, path)
	slices.Sort(names)
	return names
}
