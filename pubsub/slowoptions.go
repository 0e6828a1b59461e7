package pubsub

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/slow"
)

// slowOptions are the options for a slow subscription.
type slowOptions struct {
	kind      SlowPolicy
	behind    int
	isSet     bool // MaxBehind was used
	conflates bool
	key       func(Message) []byte // nil: a topic is one key
	limits    slow.Limits
	limited   bool // ConflateLimits was used
}

// text is the policy in one word.
func (o *slowOptions) text() string {
	if o.conflates {
		return "conflate"
	}
	return map[SlowPolicy]string{SlowAuto: "auto", SlowBlock: "block", SlowGap: "gap", SlowLatest: "latest", SlowEvict: "evict"}[o.kind]
}

// policy checks the options and returns the policy.
func (o *slowOptions) policy() (slow.Policy, error) {
	p := slow.Policy{Kind: slow.Kind(o.kind), Behind: o.behind}
	switch {
	case o.kind < 0 || o.kind >= SlowPolicy(slow.Kinds):
		return p, fmt.Errorf("pubsub: SlowConsumer(%d) is not one of SlowAuto, SlowBlock, SlowGap, SlowLatest, SlowEvict", o.kind)
	case o.isSet && o.behind < 1:
		return p, fmt.Errorf("pubsub: MaxBehind(%d) must be a number of packets above zero", o.behind)
	case o.isSet && o.kind != SlowLatest && o.kind != SlowEvict:
		return p, errors.New("pubsub: MaxBehind is for SlowLatest and SlowEvict")
	case o.conflates && (o.kind == SlowLatest || o.kind == SlowEvict):
		return p, errors.New("pubsub: Conflate can be combined with SlowGap and SlowBlock only: a conflated subscription that is read slowly does not fall behind")
	case o.limited && !o.conflates:
		return p, errors.New("pubsub: ConflateLimits is for Conflate")
	case o.limited && (o.limits.Keys < 1 || o.limits.Bytes < 1):
		return p, fmt.Errorf("pubsub: ConflateLimits(%d, %d) must both be above zero", o.limits.Keys, o.limits.Bytes)
	}
	if o.conflates && !o.limited {
		o.limits = slow.Limits{Keys: DefaultConflateKeys, Bytes: DefaultConflateBytes}
	}
	return p, nil
}
