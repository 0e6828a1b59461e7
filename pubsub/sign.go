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
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// TrustProvider gives the trust of a bus as it is now, for other sources than a file. It is asked
// for each packet, by several goroutines at once: it returns the same TrustSet until something changes.
type TrustProvider = signed.Provider

// TrustSet says which signing keys may publish on which topics. It never changes.
type TrustSet = signed.Trust

// TrustGrant lets a signing key publish on the topics of a pattern, such as "md.xnas.>".
type TrustGrant = signed.Grant

// NewTrustSet makes a TrustSet of grants. A key may have several. The error says which of them is wrong.
func NewTrustSet(grants ...TrustGrant) (*TrustSet, error) { return signed.NewTrust(grants...) }

// StaticTrust is a TrustProvider of what never changes.
func StaticTrust(set *TrustSet) TrustProvider { return signed.Static{Always: set} }

// sign has a loop over t sign what a bus publishes, and take what is trusted, as its configuration and
// the options of its URL say.
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
		dc.Publisher = signed.PublisherID(key, cmp.Or(dc.Publisher, mrand.Uint64()))
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
