package cli

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fanfaremq/fanfare/transport/signed"
)

// sign makes or shows a signing key.
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
		return outputError(json.NewEncoder(e.stdout).Encode(struct {
			ID  string `json:"id"`
			Key string `json:"key"`
		}{signed.IDOf(public).String(), signed.Format(public)}))
	}
	_, err = fmt.Fprintln(e.stdout, signed.Format(public))
	return outputError(err)
}

// wordsOr lists words as in "new, rotate or show".
func wordsOr(words []string) string {
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}
