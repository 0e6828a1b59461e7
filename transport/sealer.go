package transport

import (
	"fmt"
	"time"
)

// Prover is a Transport that seals packets. Its user can verify the publisher of each packet to a group and recognizes
// repeats, even against an attacker that holds the sealing key, and reports verified packets with Proven.
type Prover interface {
	Transport
	// Proven reports that packet i of a train was signed by signer, so that the transport remembers the packet's sender.
	// Only the loop may call it, before the train is released.
	Proven(tr *Train, i int, signer uint32)
}

// UnreadableReason is why packets cannot be opened.
type UnreadableReason uint8

const (
	// UnreadableKey: the packets are sealed with a key that this bus lacks.
	UnreadableKey UnreadableReason = iota + 1
	// UnreadableExpired: the packets are sealed with a key that is not valid now.
	UnreadableExpired
	// UnreadableOpen: the packets are not sealed, and this bus accepts sealed ones only.
	UnreadableOpen
	// UnreadableSealed: the packets are sealed, and this bus has no keys.
	UnreadableSealed
	// UnreadableClock: the packets were sent too long ago, or too far in the future.
	UnreadableClock
	// UnreadableForged: the packets do not verify with the key that they name.
	UnreadableForged
	// UnreadableVersion: the packets are sealed by another version of the format.
	UnreadableVersion
	// UnreadableMany: their senders are unknown, and there are more senders, or more packets at once, than this bus
	// checks.
	UnreadableMany
	// UnreadableNoKey: this bus has no valid key to send with.
	UnreadableNoKey
	// UnreadableUnsigned: the packets are not signed, and this bus accepts signed ones only (package transport/signed).
	// For this and the following reasons, Key is the id of the signing key.
	UnreadableUnsigned
	// UnreadableUntrusted: the publisher's key is not in the file of trust.
	UnreadableUntrusted
	// UnreadableSignature: the packets are not signed by the key that they name.
	UnreadableSignature
	// UnreadableSignedAt: the packets were signed too long ago, or too far in the future.
	UnreadableSignedAt
	// UnreadableFlood: so many packets do not verify that not all are checked.
	UnreadableFlood
	// UnreadableManyUntrusted: more keys are missing in the file of trust than are reported one by one.
	UnreadableManyUntrusted
	// UnreadableManyKeys: more keys are missing in the keyring than are reported one by one.
	UnreadableManyKeys
)

// UnreadableError reports packets that this bus cannot open, with the reason and the remedy.
type UnreadableError struct {
	Reason UnreadableReason
	Key    uint32        // id of the key in the packets; 0 if they have none
	From   string        // source of the first of them; empty if not known
	Skew   time.Duration // for UnreadableClock: by how much the sender's clock is ahead
}

func (e *UnreadableError) Error() string {
	from := ""
	if e.From != "" {
		from = " from " + e.From
	}
	switch e.Reason {
	case UnreadableKey:
		return fmt.Sprintf("packets%s are sealed with key 0x%08x, which is not in the keyring: add its line to the file of keys=, if you trust the sender", from, e.Key)
	case UnreadableExpired:
		return fmt.Sprintf("packets%s are sealed with key 0x%08x, which is not valid now: give the sender the current keyring, and compare the clocks", from, e.Key)
	case UnreadableOpen:
		return fmt.Sprintf("packets%s are not sealed, and are refused: open that bus with the same keyring (?keys=FILE), or this one without", from)
	case UnreadableSealed:
		return fmt.Sprintf("packets%s are sealed with key 0x%08x, and this bus has no keys: open it with that keyring (?keys=FILE)", from, e.Key)
	case UnreadableClock:
		return fmt.Sprintf("packets%s are refused: their sender's clock, or their age, is %v off, and 5 minutes is allowed: set the clocks of both hosts, or an attacker replays old packets", from, e.Skew)
	case UnreadableForged:
		return fmt.Sprintf("packets%s name key 0x%08x and do not verify: their sender has another secret of that id, or packets are forged or damaged", from, e.Key)
	case UnreadableVersion:
		return fmt.Sprintf("packets%s are sealed by another version of the format: run the same version of Fanfare on both sides", from)
	case UnreadableMany:
		return fmt.Sprintf("packets%s of a sender that is not known yet are refused: there are more senders than are remembered, or more packets of unknown ones than are checked; an attacker floods this network, or it has too many publishers for one bus", from)
	case UnreadableNoKey:
		return "no key of the keyring is valid now, and nothing is sent: add one (fanfare key rotate)"
	case UnreadableUnsigned:
		return fmt.Sprintf("packets%s are not signed, and are refused: open that bus with a signing key (?sign=FILE), or this one without trust=", from)
	case UnreadableUntrusted:
		return fmt.Sprintf("packets%s are of a publisher with signing key 0x%08x, which the file of trust= does not have: add its line (fanfare key sign-show), or find the host that sends them", from, e.Key)
	case UnreadableSignature:
		return fmt.Sprintf("packets%s are not signed by key 0x%08x, as they say: packets are forged or damaged", from, e.Key)
	case UnreadableSignedAt:
		return fmt.Sprintf("packets%s of the publisher with signing key 0x%08x have a time that differs from this host's by more than 5 minutes: set the clocks of both hosts, or an attacker replays old packets", from, e.Key)
	case UnreadableFlood:
		return fmt.Sprintf("packets%s that name signing key 0x%08x are skipped: too many of them do not verify for all to be checked; an attacker floods this network", from, e.Key)
	case UnreadableManyUntrusted:
		return fmt.Sprintf("packets%s are of publishers with still more signing keys that the file of trust= does not have: these are counted, and not reported one by one; keys are forged, or the file belongs to another network", from)
	case UnreadableManyKeys:
		return fmt.Sprintf("packets%s are sealed with still more keys that are not in the keyring: these are counted, and not reported one by one; key ids are forged, or the keyring belongs to another network", from)
	}
	return fmt.Sprintf("packets%s cannot be opened (%d)", from, e.Reason)
}
