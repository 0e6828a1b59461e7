package mem

import (
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport/internal/grace"
)

// Network is a fabric inside this process. Endpoints on it exchange trains by
// copying each once into the memory of every member of the group.
type Network struct {
	name string

	mu        sync.Mutex
	users     int    // number of endpoints; the registry drops a named network with the last one
	lastID    uint64 // id of the latest endpoint
	endpoints map[uint64]*Transport
	groups    map[int]*group
}

// group is the list of members that senders iterate over. It is replaced, never changed, so that they need no lock.
type group struct {
	members atomic.Pointer[[]*Transport]
}

// NewNetwork makes a network without a name.
func NewNetwork() *Network {
	return &Network{endpoints: make(map[uint64]*Transport), groups: make(map[int]*group)}
}

// registry holds the named networks of this process.
var registry = struct {
	sync.Mutex
	byName map[string]*Network
}{byName: make(map[string]*Network)}

// Lookup returns the network of this process with a name, or nil if no endpoint is on it.
func Lookup(name string) *Network {
	registry.Lock()
	defer registry.Unlock()
	return registry.byName[name]
}

// Users is the number of endpoints on the network.
func (n *Network) Users() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.users
}

// Joined is the number of endpoints ever attached to the network.
func (n *Network) Joined() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastID
}

// attach adds t to the network of the configuration and numbers it.
func attach(t *Transport, cfg Config) {
	registry.Lock()
	defer registry.Unlock()
	n := cfg.Network
	if n == nil {
		n = registry.byName[cfg.Name]
		if n == nil {
			n = NewNetwork()
			n.name = cfg.Name
			registry.byName[cfg.Name] = n
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users++
	n.lastID++
	t.net, t.id = n, n.lastID
	n.endpoints[t.id] = t
}

// detach removes t from the network and begins the wait for senders that have read the old lists. t itself stays
// registered until drop, because its senders may still be copying into endpoints that close at the same time.
func (n *Network) detach(t *Transport, leaving *grace.Period) {
	registry.Lock()
	defer registry.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.groups {
		g.remove(t)
	}
	for _, other := range n.endpoints { // t among them
		other.sections(leaving)
	}
	n.users--
	if n.users == 0 && registry.byName[n.name] == n {
		delete(registry.byName, n.name)
	}
}

// drop forgets t, after its senders have stopped.
func (n *Network) drop(t *Transport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.endpoints, t.id)
}

// group returns the group with an index.
func (n *Network) group(index int) *group {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.groupLocked(index)
}

func (n *Network) groupLocked(index int) *group {
	g := n.groups[index]
	if g == nil {
		g = new(group)
		g.members.Store(new([]*Transport))
		n.groups[index] = g
	}
	return g
}

// join adds t to a group, and reports whether that changed anything. A closing transport does not join, because detach
// has already run.
func (n *Network) join(t *Transport, index int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.closing.Load() {
		return false
	}
	g := n.groupLocked(index)
	old := *g.members.Load()
	for _, m := range old {
		if m == t {
			return false
		}
	}
	list := append(append(make([]*Transport, 0, len(old)+1), old...), t)
	g.members.Store(&list)
	return true
}

func (n *Network) leave(t *Transport, index int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.groupLocked(index).remove(t)
}

// remove removes t from the list. The caller holds the network's lock.
func (g *group) remove(t *Transport) bool {
	old := *g.members.Load()
	list := make([]*Transport, 0, len(old))
	for _, m := range old {
		if m != t {
			list = append(list, m)
		}
	}
	if len(list) == len(old) {
		return false
	}
	g.members.Store(&list)
	return true
}

// endpoint returns the transport with an id, or nil if it is detached.
func (n *Network) endpoint(id uint64) *Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.endpoints[id]
}
