package doctor

import (
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/shellword"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// SharedMemory is a directory that holds fabrics of shm://. docs/protocol §28.1.
type SharedMemory struct {
	Dir  string
	Used bool  // a running bus has a fabric there
	Err  error // the directory cannot be read
	shm.Memory
}

func (c *check) shared() {
	for i := range c.Shared {
		m := &c.Shared[i]
		if m.Err != nil {
			c.add("shm", Warn, "mount | grep "+shellword.Of(m.Dir), "shared memory in %s is not possible: %v: shm:// cannot be used there; set dir= in its URL to a directory in memory (tmpfs), the same for all processes", m.Dir, m.Err)
			continue
		}
		c.room(m)
		for j := range m.Places {
			c.place(&m.Places[j])
		}
	}
}

// minShared is roughly what an endpoint needs to open and to receive; publishing needs more.
const minShared = 256 << 10

func (c *check) room(m *SharedMemory) {
	const mb = 1e6
	limit := c.EndpointBytes
	fix := c.moreShared(m)
	little := Info // severity for an unused directory
	if m.Used {
		little = Warn
	}
	switch free := float64(m.Free) / mb; {
	case m.Bytes == 0:
		c.add("shm", OK, "", "the file system of %s has no limit of its own: an endpoint of shm:// uses up to %.0f MB", m.Dir, float64(limit)/mb)
	case m.Free < minShared:
		c.add("shm", Warn, fix, "%s is full: %.1f MB of %.0f are free. shm:// cannot be opened, and processes that use it lose messages that they publish", m.Dir, free, float64(m.Bytes)/mb)
	case m.Bytes < limit:
		c.add("shm", little, fix, "%s has %.0f MB, of which %.0f are free, but an endpoint of shm:// may use %.0f, a quarter of that for messages it publishes: slow readers lose messages earlier%s",
			m.Dir, float64(m.Bytes)/mb, free, float64(limit)/mb, c.why64(m))
	case m.Free < limit:
		c.add("shm", little, "du -sh "+shellword.Of(m.Dir)+"/* | sort -h   # shows what uses it; otherwise "+fix, "%s has %.0f MB free of %.0f, but an endpoint of shm:// may use %.0f, a quarter of that for messages it publishes: slow readers lose messages earlier",
			m.Dir, free, float64(m.Bytes)/mb, float64(limit)/mb)
	default:
		c.add("shm", OK, "", "%s has %.0f MB free of %.0f: enough for %d endpoints of shm://, which use up to %.0f each", m.Dir, free, float64(m.Bytes)/mb, m.Free/limit, float64(limit)/mb)
	}
}

const dockerShared = 64 << 20 // default of containers (docker run --shm-size)

func (c *check) why64(m *SharedMemory) string {
	if kind, _ := (&check{Facts: c.Facts}).container(); kind != "" && m.Dir == shm.DefaultDir && m.Bytes == dockerShared {
		return "; containers get 64 MB by default"
	}
	return ""
}

func (c *check) moreShared(m *SharedMemory) string {
	kind, _ := (&check{Facts: c.Facts}).container()
	if m.Dir != shm.DefaultDir { // mounted from outside the container
		kind = ""
	}
	switch {
	case kind == "Kubernetes":
		return "emptyDir: {medium: Memory}   # a volume of the pod, mounted at " + m.Dir
	case kind == "Podman":
		return "podman run --shm-size=1g ...   # or --ipc=host, to share a fabric with processes of the host"
	case kind == "Docker":
		return "docker run --shm-size=1g ...   # or --ipc=host, to share a fabric with processes of the host"
	case kind != "":
		return "mount -o remount,size=1G " + shellword.Of(m.Dir) + "   # or in the configuration of the container"
	}
	return "mount -o remount,size=1G " + shellword.Of(m.Dir) + "   # or use another directory in memory with dir= in the URL, the same for all"
}

func (c *check) place(p *shm.Place) {
	switch {
	case p.Wrong == "" && p.Left && p.User != c.UID:
		c.add("shm", Info, "", "no process uses %s of user %d any more, which holds %.1f MB: the next endpoint of that user removes it; only root can also remove it", p.Path, p.User, float64(p.Bytes)/1e6)
	case p.Wrong == "":
	case p.Mine:
		c.add("shm", Fail, remove(p), "%s %s: you cannot use shm:// there; ask user %d or root to remove it, or use another directory (dir= in the URL)", p.Path, p.Wrong, p.User)
	default:
		c.add("shm", Warn, remove(p), "%s %s: shm:// cannot be used there; ask user %d or root to remove it, or use another directory (dir= in the URL)", p.Path, p.Wrong, p.User)
	}
}

// remove is the command that removes a directory. There is none for a fabric inside one: until it
// runs, its owners could replace the path by a link to other files.
func remove(p *shm.Place) string {
	if p.Fabric {
		return ""
	}
	return "rm -r " + shellword.Of(p.Path)
}
