package pubsub

import (
	"errors"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
)

// KeyProvider gives the keys of a bus as they are now, for other sources than a file. It is
// asked for each train, by several goroutines at once: it returns the same KeySet until a key is
// added or taken out, and another one from then on.
type KeyProvider = sealed.Provider

// KeySet is keys that are ready for use. It never changes.
type KeySet = sealed.Keyset

// Key is a key of sealed groups.
type Key = sealed.Key

// KeyID names a key. It is in clear in each packet.
type KeyID = sealed.KeyID

// NewKeySet makes keys ready for use: at most 64, each with an id of its own.
func NewKeySet(keys ...Key) (*KeySet, error) { return sealed.NewKeyset(keys) }

// StaticKeys is a KeyProvider of keys that never change.
func StaticKeys(keys *KeySet) KeyProvider { return sealed.Static{Keyset: keys} }

// UnreadableError is the Err of an Event of kind PacketsUnreadable: why packets that come
// cannot be opened, and what to do.
type UnreadableError = transport.UnreadableError

// isOpen reports whether the groups are open: not sealed, and the fabric is not closed to others. If so it says
// that, in the first line that a bus logs: what the fabric has to say comes behind.
func (c *Config) isOpen(file string, closed bool) bool {
	open := file == "" && c.Keys == nil && !closed
	if open {
		report.GroupsOpen.Log(c.Logger)
	}
	return open
}

// allClosed reports whether only trusted processes reach the fabric.
func allClosed(list []*fabricurl.Fabric) bool {
	return !slices.ContainsFunc(list, func(f *fabricurl.Fabric) bool { return !f.Closed() })
}

// sealedPad is the default of Config.Pad of a bus with keys: a full packet on Ethernet. Longer packets
// show the size of what is in them by multiples of it, as messages in several packets do.
const sealedPad = 1472

// pad is what packets are padded to a multiple of.
func (c *Config) pad(files busFiles) int {
	if c.Pad == 0 && (c.Keys != nil || files.keys != "") {
		return sealedPad
	}
	return c.Pad
}

// seal seals what a bus sends and receives, if it has keys. files are those that its URLs name.
// t is ended where that fails.
func (c *Config) seal(t transport.Transport, files busFiles) (transport.Transport, error) {
	file := files.keys
	sc := sealed.Config{Keys: c.Keys, Proven: c.Trust != nil || files.trust != ""}
	fail := func(err error) (transport.Transport, error) {
		endTransport(t)
		return nil, err
	}
	switch {
	case file == "" && c.Keys == nil:
		return t, nil
	case file != "" && c.Keys != nil:
		return fail(errors.New("keys= in the URL, and Config.Keys: leave one out"))
	case file != "":
		ring, err := keyring.Open(file, c.Logger)
		if err != nil {
			return fail(err)
		}
		sc.Keys, sc.Closed = ring, func() { ring.Close() }
	}
	s, err := sealed.New(t, sc)
	if err != nil {
		if sc.Closed != nil {
			sc.Closed()
		}
		return fail(err)
	}
	use, ok := KeyID(0), false
	if set := sc.Keys.Keys(); set != nil {
		use, ok = set.Sending(time.Now())
	}
	if !ok {
		report.NoKeyValid.Log(c.Logger)
	} else {
		report.GroupsSealed.Log(c.Logger, "key", use.String())
	}
	return s, nil
}
