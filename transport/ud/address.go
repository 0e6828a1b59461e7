package ud

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/rdma"
)

// addressWatch tells once when the port has lost the address that the transport is
// bound to, with which its GID goes. No call fails then, and no membership ends:
// without this nobody would be told. Loop only.
type addressWatch struct {
	dev   rdma.Device // for its events; nil: nothing is watched
	port  uint8
	entry rdma.GIDEntry
	polls uint
}

// pollsBetween is how many Polls of a loop that spins may pass between two looks.
// One that waits looks before each Wait.
const pollsBetween = 1024

// open begins. What cannot be watched is not: the transport works without.
func (w *addressWatch) open(provider rdma.Provider, name string, local rdma.Local) {
	dev, err := provider.OpenDevice(name)
	if err != nil {
		return
	}
	w.dev, w.port = dev, local.Port
	list, err := dev.GIDs(local.Port)
	i := slices.IndexFunc(list, func(e rdma.GIDEntry) bool { return e.Index == local.SGIDIndex })
	if err != nil || i < 0 {
		w.close()
		return
	}
	w.entry = list[i]
}

func (w *addressWatch) close() {
	if w.dev != nil {
		_ = w.dev.Close() // nothing was made from it
		w.dev = nil
	}
}

// lost takes the device's events, and reports whether the GID has gone.
func (w *addressWatch) lost() bool {
	for changed := false; w.dev != nil; {
		ev, err := w.dev.TryGetAsyncEvent()
		if err == nil {
			changed = changed || ev.Type == rdma.AsyncGIDChange && ev.Port == w.port
			continue
		}
		if !changed {
			return false
		}
		list, err := w.dev.GIDs(w.port)
		return err == nil && !slices.ContainsFunc(list, func(e rdma.GIDEntry) bool { return e.GID == w.entry.GID })
	}
	return false
}

// watchAddress looks, and tells.
func (t *Transport) watchAddress() {
	if !t.address.lost() {
		return
	}
	e := t.address.entry
	t.address.close()
	logline.AddressGone.Log(t.cfg.Logger, "address", t.local, "interface", e.NetDev, "gid", e.GID)
}
