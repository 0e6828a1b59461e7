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

// KeyProvider returns the current keys of a bus, from a source other than a file. It is called for each train of
// packets, by several goroutines at once. It must return the same *KeySet until a key is added or removed, and then
// another one.
type KeyProvider = sealed.Provider

// KeySet is an immutable set of keys.
type KeySet = sealed.Keyset

// Key is a key of sealed groups.
type Key = sealed.Key

// KeyID identifies a key. Each packet contains it unencrypted.
type KeyID = sealed.KeyID

// NewKeySet returns a set of keys: at most 64, with distinct ids.
func NewKeySet(keys ...Key) (*KeySet, error) { return sealed.NewKeyset(keys) }

// StaticKeys is a KeyProvider that always returns keys.
func StaticKeys(keys *KeySet) KeyProvider { return sealed.Static{Keyset: keys} }

// UnreadableError is the Err of an event of kind PacketsUnreadable: why packets cannot be opened, and the remedy.
type UnreadableError = transport.UnreadableError

// isOpen reports whether other hosts can read the groups: packets are not sealed, and the fabric admits untrusted
// processes. If so it logs that, before any line of the fabric.
func (c *Config) isOpen(file string, closed bool) bool {
	open := file == "" && c.Keys == nil && !closed
	if open {
		report.GroupsOpen.Log(c.Logger)
	}
	return open
}

// allClosed reports whether only trusted processes can reach the fabrics.
func allClosed(list []*fabricurl.Fabric) bool {
	return !slices.ContainsFunc(list, func(f *fabricurl.Fabric) bool { return !f.Closed() })
}

// sealedPad is the default of Config.Pad for a bus with keys: a full packet on Ethernet. The size of longer packets,
// and of messages in several packets, remains visible in multiples of it.
const sealedPad = 1472

// pad is the number of bytes: packets are padded to a multiple of it.
func (c *Config) pad(files busFiles) int {
	if c.Pad == 0 && (c.Keys != nil || files.keys != "") {
		return sealedPad
	}
	return c.Pad
}

// seal wraps t so that packets are sealed, if the bus has keys. If it fails it closes t.
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
