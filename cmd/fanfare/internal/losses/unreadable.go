package losses

import (
	"cmp"
	"strings"

	"github.com/fanfaremq/fanfare/transport"
)

// readable is how packets come to be opened again. A keyring is in vain where a signature is not trusted, and where a
// bus's own keys have expired nobody else is to be looked for.
func readable(e *Evidence) string {
	process, from := cmp.Or(e.Process, "this process"), cmp.Or(e.Address, "the address in the log")
	reason := said(e.Err, "the log says why they do not open")
	says := func(text string) bool { return strings.Contains(e.Err, text) } // no address has a space
	switch {
	case e.Err == "":
		return "Give all buses of these groups the same keyring (keys= in the URL), with a key that is valid now (fanfare key show), and " + process +
			" a file of trust= with the lines of all publishers that sign; or find who sends from " + from + ": " + reason + "."
	case e.Err == expired:
		return "Add a key that is valid now to the keyring of " + process + ", which sends nothing until then (fanfare key rotate -in 0s), and give that file to all buses of these groups: " + reason + "."
	case says(" 5 minutes"):
		return "Set the clocks of both hosts, or find who plays back old packets from " + from + ": " + reason + "."
	case says("another version of"):
		return "Run the same version of Fanfare on both sides, or find who sends from " + from + ": " + reason + "."
	case says("not signed") || says("signing key"):
		return "Give the file of trust= of " + process + " the line of that publisher (fanfare key sign-show), or that publisher a signing key that is in it (sign= in the URL), or find who sends from " + from + ": " + reason + "."
	}
	return "Give all buses of these groups the same keyring (keys= in the URL), or find who sends from " + from + ": " + reason + "."
}

// expired is what a bus says that has no valid key.
var expired = (&transport.UnreadableError{Reason: transport.UnreadableNoKey}).Error()
