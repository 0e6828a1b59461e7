package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
	"github.com/fanfaremq/fanfare/transport/signed"
)

type keys struct {
	action, file string
	valid        time.Duration
	in, overlap  time.Duration
	json, quiet  bool
}

var keyActions = []word{
	{"new", "make a keyring with one key that is valid immediately"},
	{"rotate", "add a key that replaces the others, and set their end"},
	{"show", "list the keys without their secrets"},
	{"sign-new", "make a publisher's signing key, and print its public key"},
	{"sign-show", "print the public key of a signing key, in the form that trust files use"},
}

func keyCommand() command {
	return command{
		name:     "key",
		summary:  "make, rotate and show keys for sealed groups and for signing publishers",
		usage:    "fanfare key [flags] ACTION FILE",
		operand:  "ACTION",
		operands: keyActions,
		about: `Buses that are opened with the same keyring (-t 'udp://?keys=FILE') seal every packet:
a host without the key cannot read packets, and packets that it sends are refused.

A publisher with a signing key (-t 'udp://?sign=FILE') proves its identity. A
subscriber with a trust file (-t 'udp://?trust=FILE') accepts messages only from the
publishers in the file, on the topics given there, with lines such as
    md.xnas.>   ed25519:pYyIxPq2...=`,
		notes: `Copy the file to every host over a secure channel, and make it readable only by its
owner. A bus reads its file again within 250 ms of a change. Rotate on one host, and
copy the file to all others before the new key becomes valid: then nothing is lost.
Delete a line of the file to refuse that key immediately.

A signing key stays on the host of its publisher; its public key goes into the trust
files of subscribers, which may be readable by all, and are also read again:
    echo "md.xnas.> $(fanfare key sign-show desk.key)" >> trust`,
		examples: `fanfare key new keys
fanfare key new -valid 2160h keys
fanfare key rotate -in 1h -overlap 12h keys
fanfare key show keys
fanfare key sign-new desk.key
fanfare key sign-show desk.key`,
		flags: flagsOf(func() *keys { return new(keys) }),
	}
}

func (k *keys) register(fs *flagSet) {
	atLeast(durationVar(fs, &k.valid, "valid", 0, "how long the new key is valid from its beginning; 0: until it is rotated"), time.Second)
	atLeast(durationVar(fs, &k.in, "in", 10*time.Minute, "with rotate: time until the new key becomes valid. Every host needs the new file before that"), 0)
	atLeast(durationVar(fs, &k.overlap, "overlap", 24*time.Hour, "with rotate: how long the old keys are accepted after that"), 0)
	boolVar(fs, &k.json, "json", "the keys as JSON on standard output, one object for each key, without secrets")
	boolVar(fs, &k.quiet, "q", "with new and rotate: print only warnings")
}

func (k *keys) check(fs *flagSet, operands []string) error {
	switch {
	case len(operands) == 1:
		return usagef("no file given: fanfare key %s FILE", operands[0])
	case len(operands) > 2:
		return usagef("key takes an action and one file: %q is too many", operands[2])
	}
	k.action, k.file = operands[0], operands[1]
	for flag, of := range map[string][]string{"valid": {"new", "rotate"}, "in": {"rotate"}, "overlap": {"rotate"}} {
		if fs.isSet(flag) && !slices.Contains(of, k.action) {
			return usagef("-%s has no effect with %s: leave it out", flag, k.action)
		}
	}
	return nil
}

func (k *keys) run(ctx context.Context, e *env) error {
	if k.action == "sign-new" || k.action == "sign-show" {
		return k.sign(e)
	}
	list, err := k.change(ctx)
	if errors.As(err, new(*keyring.Error)) && !errors.Is(err, keyring.ErrBusy) {
		return &usageError{err} // the error names the file, which is unchanged
	}
	if err != nil {
		return err
	}
	now := time.Now()
	k.warn(e.console, list, now)
	if k.quiet && k.action != "show" {
		return nil
	}
	return k.show(e.stdout, list, now)
}

func (k *keys) warn(c *console, list []sealed.Key, now time.Time) {
	for _, h := range keyring.Holes(list, now) {
		c.line("warning: no key is valid from %s until %s: nothing can be sent then; make another key begin earlier or end later", keyring.Time(h.From), keyring.Time(h.Until))
	}
	if k.action != "rotate" {
		return
	}
	for _, key := range list[:len(list)-1] { // the last key is the new one
		if fresh := list[len(list)-1]; key.NotBefore.After(fresh.NotBefore) {
			c.line("warning: key %s begins later, at %s, and then replaces the new key %s: delete its line if the new key is to be used", key.ID, keyring.Time(key.NotBefore), fresh.ID)
		}
	}
	if k.overlap < sealed.DefaultSkew {
		c.line("warning: the old keys are refused %v after the new one begins: packets from a host with a clock further behind are refused until it reaches that time; -overlap %v or more avoids that", k.overlap, sealed.DefaultSkew)
	}
}

func (k *keys) change(ctx context.Context) ([]sealed.Key, error) {
	switch k.action {
	case "new":
		key, err := keyring.NewKey(nil, time.Time{}, k.end(time.Now())) // no start time: usable with slow clocks
		if err != nil {
			return nil, err
		}
		return []sealed.Key{key}, keyring.Create(k.file, []sealed.Key{key})
	case "show":
		return keyring.Read(k.file)
	}
	return keyring.Update(ctx, k.file, func(list []sealed.Key) ([]sealed.Key, error) {
		now := time.Now() // the time when the new key begins
		begin := now.Add(k.in)
		list, _, err := keyring.Rotate(list, now, begin, k.end(begin), k.overlap)
		return list, err
	})
}

func (k *keys) end(begin time.Time) time.Time {
	if k.valid == 0 {
		return time.Time{}
	}
	return begin.Add(k.valid)
}

type jsonKey struct {
	ID        string    `json:"id"`
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
	State     string    `json:"state"`
}

func (k *keys) show(w io.Writer, list []sealed.Key, now time.Time) error {
	set, err := sealed.NewKeyset(list)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b sealed.Key) int { return a.NotBefore.Compare(b.NotBefore) })
	out := newJSONLines(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !k.json {
		fmt.Fprintln(t, "id\tnot before\tnot after\tstate")
	}
	for _, key := range list {
		second := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
		x := jsonKey{key.ID.String(), second(key.NotBefore), second(key.NotAfter), keyState(set, key, now)}
		if !k.json {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", x.ID, keyring.Time(x.NotBefore), keyring.Time(x.NotAfter), x.State)
			continue
		}
		if err := out.write(x); err != nil {
			return outputError(err)
		}
	}
	return outputError(t.Flush())
}

func keyState(set *sealed.Keyset, key sealed.Key, now time.Time) string {
	use, ok := set.Sending(now)
	switch {
	case ok && use == key.ID:
		return "sends and receives"
	case !key.NotAfter.IsZero() && !key.NotAfter.After(key.NotBefore):
		return "never valid: ends before it begins"
	case !key.NotAfter.IsZero() && !now.Before(key.NotAfter):
		return "over"
	case now.Before(key.NotBefore):
		return "begins in " + key.NotBefore.Sub(now).Round(time.Second).String()
	}
	return "receives"
}

func (k *keys) sign(e *env) error {
	use := signed.ReadKey
	if k.action == "sign-new" {
		use = signed.CreateKey
	}
	key, err := use(k.file)
	if errors.As(err, new(*signed.FileError)) {
		return &usageError{err} // the error names the file
	}
	if err != nil || k.quiet && k.action == "sign-new" {
		return err
	}
	public := key.Public().(ed25519.PublicKey)
	if k.json {
		return outputError(newJSONLines(e.stdout).write(struct {
			ID  string `json:"id"`
			Key string `json:"key"`
		}{signed.IDOf(public).String(), signed.Format(public)}))
	}
	_, err = fmt.Fprintln(e.stdout, signed.Format(public))
	return outputError(err)
}
