package pubsub

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	mrand "math/rand/v2"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// TrustProvider returns the current trust of a bus, from a source other than a file. It is called for each packet, by
// several goroutines at once. It must return the same *TrustSet until something changes.
type TrustProvider = signed.Provider

// TrustSet is an immutable set of grants: which signing keys may publish on which topics.
type TrustSet = signed.Trust

// TrustGrant lets a signing key publish on the topics of a pattern, such as "md.xnas.>".
type TrustGrant = signed.Grant

// NewTrustSet returns a TrustSet of grants. A key may have several. The error names the invalid grant.
func NewTrustSet(grants ...TrustGrant) (*TrustSet, error) { return signed.NewTrust(grants...) }

// StaticTrust is a TrustProvider that always returns set.
func StaticTrust(set *TrustSet) TrustProvider { return signed.Static{Always: set} }

// sign sets the signing key and the trust in the engine's configuration, from Config and the options of the URLs.
func (c *Config) sign(dc *engine.Config, t transport.Transport, files busFiles) error {
	switch {
	case files.sign != "" && c.Sign != nil:
		return errors.New("sign= in the URL, and Config.Sign: leave one out")
	case files.trust != "" && c.Trust != nil:
		return errors.New("trust= in the URL, and Config.Trust: leave one out")
	}
	key := c.Sign
	if files.sign != "" {
		var err error
		if key, err = signed.ReadKey(files.sign); err != nil {
			return fmt.Errorf("signing key %w", err)
		}
	}
	if key != nil {
		if size := signed.Capabilities(t.Capabilities()).PacketSize; size < wire.MinPacket {
			return fmt.Errorf("packets of %d bytes are too small to be signed: use %d at least", t.Capabilities().PacketSize+t.Capabilities().SealOverhead, wire.MinPacket+wire.SignedOverhead+t.Capabilities().SealOverhead)
		}
		var err error
		if dc.Signer, err = signed.NewSigner(key, nil, nil); err != nil {
			return err
		}
		dc.Publisher = signed.PublisherID(key, cmp.Or(dc.Publisher, events.ID(mrand.Uint64())))
		report.PublishersSigned.Log(c.Logger, "key", signed.Format(key.Public().(ed25519.PublicKey)))
	}
	if dc.Trust = c.Trust; files.trust != "" {
		f, err := signed.OpenTrust(files.trust, c.Logger)
		if err != nil {
			return fmt.Errorf("file of trust %w", err)
		}
		dc.Trust, dc.Stopped = f, func() { f.Close() }
	}
	if dc.Trust != nil {
		report.PublishersTrusted.Log(c.Logger, "keys", dc.Trust.Trust().Keys())
	}
	return nil
}
