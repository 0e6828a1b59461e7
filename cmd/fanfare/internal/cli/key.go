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
	{"new", "make a keyring with one key, which is used at once"},
	{"rotate", "add a key that takes the place of the others, and end them"},
	{"show", "say which keys there are, without their secrets"},
	{"sign-new", "make a key that a publisher signs with, and say its public part"},
	{"sign-show", "say the public part of a signing key, as files of trust have it"},
}

func keyCommand() command {
	return command{
		name:     "key",
		summary:  "make, change and show the keys of sealed groups and of publishers that sign",
		usage:    "fanfare key [flags] ACTION FILE",
		operand:  "ACTION",
		operands: keyActions,
		about: `Buses that are opened with the same keyring (-t 'udp://?keys=FILE') seal every packet:
a host without the key reads nothing, and its packets are refused.

A publisher with a signing key (-t 'udp://?sign=FILE') proves that it is the
sender. A subscriber with a file of trust (-t 'udp://?trust=FILE') takes messages
only of the publishers that the file names, each on the topics of its lines:
    md.xnas.>   ed25519:pYyIxPq2...=`,
		notes: `Give the file to every host by a way that is safe, readable by its owner only. A
bus looks at its file four times a second. Rotate on one host, and copy the file to
all others before the new key begins: then nothing is lost. Take a line out of the
file to refuse that key at once.

A signing key stays where its publisher runs; its public part goes into the files of
trust. Those may be read by all, and are looked at four times a second, too:
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
	atLeast(durationVar(fs, &k.valid, "valid", 0, "how long the key that is made is used and taken, from its beginning on; 0: until it is rotated"), time.Second)
	atLeast(durationVar(fs, &k.in, "in", 10*time.Minute, "of rotate: when the new key begins, from now on. Until then every host needs the file"), 0)
	atLeast(durationVar(fs, &k.overlap, "overlap", 24*time.Hour, "of rotate: how long the keys of before are still taken, from then on"), 0)
	boolVar(fs, &k.json, "json", "the keys as JSON on standard output, one object a line, without secrets")
	boolVar(fs, &k.quiet, "q", "of new and rotate: write nothing but warnings")
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
			return usagef("-%s changes nothing with %s: leave it out", flag, k.action)
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
		return &usageError{err} // of the file that was named, and which is as it was
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
		c.line("warning: no key is valid from %s until %s: nothing can be sent then; let another key begin earlier, or end later", keyring.Time(h.From), keyring.Time(h.Until))
	}
	if k.action != "rotate" {
		return
	}
	for _, key := range list[:len(list)-1] { // the last is the new one
		if fresh := list[len(list)-1]; key.NotBefore.After(fresh.NotBefore) {
			c.line("warning: key %s begins later, at %s, and takes the place of the new one, %s, then: delete its line where it is to be the other way round", key.ID, keyring.Time(key.NotBefore), fresh.ID)
		}
	}
	if k.overlap < sealed.DefaultSkew {
		c.line("warning: the keys of before are refused %v after the new one begins: packets of a host with a clock further behind are refused until it has caught up; -overlap %v or more avoids that", k.overlap, sealed.DefaultSkew)
	}
}

func (k *keys) change(ctx context.Context) ([]sealed.Key, error) {
	switch k.action {
	case "new":
		key, err := keyring.NewKey(nil, time.Time{}, k.end(time.Now())) // no host with a clock that is behind has to wait
		if err != nil {
			return nil, err
		}
		return []sealed.Key{key}, keyring.Create(k.file, []sealed.Key{key})
	case "show":
		return keyring.Read(k.file)
	}
	return keyring.Update(ctx, k.file, func(list []sealed.Key) ([]sealed.Key, error) {
		now := time.Now() // when it is this one's turn
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
		return &usageError{err} // of the file that was named
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
