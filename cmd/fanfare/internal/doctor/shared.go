package doctor

import (
	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/shellword"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// SharedMemory is a directory in which fabrics of shm:// are. docs/protocol §28.1.
type SharedMemory struct {
	Dir  string
	Used bool  // a bus that runs has a fabric there
	Err  error // it cannot be looked at
	shm.Memory
}

func (c *check) shared() {
	for i := range c.Shared {
		m := &c.Shared[i]
		if m.Err != nil {
			c.add("shm", Warn, "mount | grep "+shellword.Of(m.Dir), "there can be no shared memory in %s: %v: shm:// cannot be used there; set dir= in its URL to a directory in memory (tmpfs), the same for all processes", m.Dir, m.Err)
			continue
		}
		c.room(m)
		for j := range m.Places {
			c.place(&m.Places[j])
		}
	}
}

// leastShared is what an endpoint needs to open and to hear some others, about; its publications need more.
const leastShared = 256 << 10

func (c *check) room(m *SharedMemory) {
	const mb = 1e6
	most := c.EndpointBytes
	fix := c.moreShared(m)
	little := Info // where it is not used
	if m.Used {
		little = Warn
	}
	switch free := float64(m.Free) / mb; {
	case m.Bytes == 0:
		c.add("shm", OK, "", "the file system of %s has no limit of its own: an endpoint of shm:// uses up to %.0f MB", m.Dir, float64(most)/mb)
	case m.Free < leastShared:
		c.add("shm", Warn, fix, "%s is full: %.1f MB of %.0f are free, so that shm:// cannot be used, and processes that use it lose what they publish", m.Dir, free, float64(m.Bytes)/mb)
	case m.Bytes < most:
		c.add("shm", little, fix, "%s has %.0f MB, of which %.0f are free, and an endpoint of shm:// may use %.0f, a quarter of it for what it publishes: where a reader falls behind, messages are lost sooner%s",
			m.Dir, float64(m.Bytes)/mb, free, float64(most)/mb, c.why64(m))
	case m.Free < most:
		c.add("shm", little, "du -sh "+shellword.Of(m.Dir)+"/* | sort -h   # what takes it; else "+fix, "%s has %.0f MB free of %.0f, and an endpoint of shm:// may use %.0f, a quarter of it for what it publishes: where a reader falls behind, messages are lost sooner",
			m.Dir, free, float64(m.Bytes)/mb, float64(most)/mb)
	default:
		c.add("shm", OK, "", "%s has %.0f MB free of %.0f: enough for %d endpoints of shm://, which use up to %.0f each", m.Dir, free, float64(m.Bytes)/mb, m.Free/most, float64(most)/mb)
	}
}

const dockerShared = 64 << 20 // what a container has by default (docker run --shm-size)

func (c *check) why64(m *SharedMemory) string {
	if kind, _ := (&check{Facts: c.Facts}).container(); kind != "" && m.Dir == shm.DefaultDir && m.Bytes == dockerShared {
		return "; 64 MB is what containers get by default"
	}
	return ""
}

func (c *check) moreShared(m *SharedMemory) string {
	kind, _ := (&check{Facts: c.Facts}).container()
	if m.Dir != shm.DefaultDir { // which is mounted from outside
		kind = ""
	}
	switch {
	case kind == "Kubernetes":
		return "emptyDir: {medium: Memory}   # a volume of the pod, mounted at " + m.Dir
	case kind == "Podman":
		return "podman run --shm-size=1g ...   # or --ipc=host, to meet processes of the host"
	case kind == "Docker":
		return "docker run --shm-size=1g ...   # or --ipc=host, to meet processes of the host"
	case kind != "":
		return "mount -o remount,size=1G " + shellword.Of(m.Dir) + "   # or in the configuration of the container"
	}
	return "mount -o remount,size=1G " + shellword.Of(m.Dir) + "   # or dir= in the URL, another place in memory, the same for all"
}

func (c *check) place(p *shm.Place) {
	switch {
	case p.Wrong == "" && p.Left && p.User != c.UID:
		c.add("shm", Info, "", "no process uses %s of user %d any more, and it holds %.1f MB: that user's next endpoint removes it, and else root alone can", p.Path, p.User, float64(p.Bytes)/1e6)
	case p.Wrong == "":
	case p.Mine:
		c.add("shm", Fail, remove(p), "%s %s: shm:// is refused to you there; have it removed by user %d or root, or use another place (dir= in the URL)", p.Path, p.Wrong, p.User)
	default:
		c.add("shm", Warn, remove(p), "%s %s: shm:// is refused there; have it removed by user %d or root, or use another place (dir= in the URL)", p.Path, p.Wrong, p.User)
	}
}

// remove is the command that removes a place. There is none for a fabric in a place: until it is given, the processes
// that have the place could put a link there to what it would remove.
func remove(p *shm.Place) string {
	if p.Fabric {
		return ""
	}
	return "rm -r " + shellword.Of(p.Path)
}
