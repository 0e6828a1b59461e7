package signed

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Trust is an immutable set of grants: which keys may publish on which topics.
type Trust struct {
	keys map[KeyID]*trusted
}

// trusted is a key and the patterns of topics on which it may publish.
type trusted struct {
	key    ed25519.PublicKey
	topics []pattern.Pattern
}

// Grant lets a key publish on the topics of a pattern, such as "md.xnas.>".
type Grant struct {
	Topics string
	Key    ed25519.PublicKey
}

// maxTrusted bounds the keys of a Trust.
const maxTrusted = 4096

// NewTrust makes a Trust of grants. A key may have several. It returns an error for an invalid grant, more than 4096
// keys, or two keys with one id.
func NewTrust(grants ...Grant) (*Trust, error) {
	t := &Trust{keys: make(map[KeyID]*trusted)}
	for _, g := range grants {
		if err := t.add(g); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Trust) add(g Grant) error {
	p, err := pattern.Parse(g.Topics)
	if err != nil {
		return err
	}
	if len(g.Key) != ed25519.PublicKeySize {
		return fmt.Errorf("a key has %d bytes: it must have %d", len(g.Key), ed25519.PublicKeySize)
	}
	if weak(g.Key) {
		return fmt.Errorf("the key %s is of small order, so signatures for it can be forged: use the one that fanfare key sign-show prints", Format(g.Key))
	}
	id := IDOf(g.Key)
	k := t.keys[id]
	switch {
	case k == nil && len(t.keys) == maxTrusted:
		return fmt.Errorf("there are more than %d keys", maxTrusted)
	case k == nil:
		k = &trusted{key: bytes.Clone(g.Key)}
		t.keys[id] = k
	case !k.key.Equal(g.Key):
		return fmt.Errorf("two keys have the id %v: replace this one by a new key", id)
	}
	k.topics = append(k.topics, p)
	return nil
}

// ParseTrust parses the text of a trust file: each line has a pattern of topics and a key. # begins a comment. Errors
// are a *FileError, without a file.
//
//	md.xnas.>   ed25519:pYyIxPq2…=
func ParseTrust(text []byte) (*Trust, error) {
	t, _ := NewTrust()
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, &FileError{Line: n, Err: fmt.Errorf("%d words: a line has a pattern of topics and a key", len(words))}
		}
		key, err := ParsePublic(words[1])
		if err == nil {
			err = t.add(Grant{words[0], key})
		}
		if err != nil {
			return nil, &FileError{Line: n, Err: err}
		}
	}
	if len(t.keys) == 0 {
		return nil, &FileError{Err: errors.New("it trusts no key: each line must have a pattern of topics and a key")}
	}
	return t, nil
}

// Keys is the number of keys.
func (t *Trust) Keys() int {
	if t == nil {
		return 0
	}
	return len(t.keys)
}

// find returns the entry of a key, or nil.
func (t *Trust) find(id KeyID) *trusted {
	if t == nil {
		return nil
	}
	return t.keys[id]
}

// May reports whether a publisher's key may publish on a topic.
func (t *Trust) May(publisher events.ID, topic string) bool {
	k := t.find(idOfPublisher(publisher))
	return k != nil && k.may(topic)
}

// may reports whether the key may publish on a topic, and reply to requests on it.
func (k *trusted) may(topic string) bool {
	for _, p := range k.topics {
		if p.Match(topic) {
			return true
		}
	}
	return false
}

// Provider returns the current Trust. It is called for each packet, by several goroutines at once. It must return the
// same *Trust until something changes. A nil Trust trusts no key.
type Provider interface {
	Trust() *Trust
}

// Static is a Provider that always returns the same Trust.
type Static struct{ Always *Trust }

// Trust implements Provider.
func (s Static) Trust() *Trust { return s.Always }
